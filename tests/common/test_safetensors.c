#include "common/safetensors.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

// --- files by hand ---------------------------------------------------------------------

static char folder[] = "/tmp/weir-safetensors-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

// A header of that JSON that says it is `length` long, and so much data.
static void write_framed(const char *json, uint64_t length, size_t data)
{
    struct text text = { 0 };
    for (int i = 0; i < 8; i++)
        text_add_bytes(&text, &(char){ (char)(length >> 8 * i) }, 1);
    text_add(&text, "%s", json);
    text_add_repeated(&text, "x", data);
    write_file(text.data, text.length);
    text_clear(&text);
}

// Whole, so that a test sees what a reader of files sees.
static void *read_all(const struct safe_header *header, struct safe_file *file)
{
    struct error error = { 0 };
    uint64_t at = 0;
    char *all = malloc(safe_file_bytes(file) + 1);
    assert_non_null(all);
    for (size_t i = 0; i < header->count; i++) {
        assert_good(safe_file_next(file, all + at, &error), error);
        at += header->tensors[i].end - header->tensors[i].first;
    }
    return all;
}

// --- what is written -----------------------------------------------------------------------

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    struct error error = { 0 };
    const float bias[3] = { 1, -2, 0.5f };
    const uint16_t weight[5] = { 1, 2, 3, 4, 5 };
    const int64_t scalar = -7;
    struct safe_tensor tensors[] = {
        { .name = "weight \"q\"", .type = SAFE_BF16, .dimensions = 2, .shape = { 5, 1 }, .data = weight },
        { .name = "bias", .type = SAFE_F32, .dimensions = 1, .shape = { 3 }, .data = bias },
        { .name = "nothing", .type = SAFE_F32, .dimensions = 2, .shape = { 0, 1ull << 40 }, .data = NULL },
        { .name = "scalar", .type = SAFE_I64, .data = &scalar },
    };
    const struct safe_note notes[] = { { "format", "weir" }, { "step", "7" } };
    struct safe_written written;
    assert_good(safetensors_save(path, tensors, 4, notes, 2, &written, &error), error);

    struct safe_file *file = safe_file_open(path, &error);
    assert_good(file, error);
    const struct safe_header *header = safe_file_header(file);
    assert_int_equal(safe_file_data_at(file) % 8, 0);
    assert_int_equal(safe_file_bytes(file), written.bytes);
    assert_int_equal(header->count, 4);
    assert_string_equal(safe_header_note(header, "step"), "7");
    assert_null(safe_header_note(header, "bias"));
    // Wide numbers first.
    const char *const names[] = { "scalar", "bias", "nothing", "weight \"q\"" };
    char *all = read_all(header, file);
    for (size_t i = 0; i < 4; i++) {
        // Two that begin at the same byte, one of them empty, are in the order of their ends.
        const bool is_here = strcmp(header->tensors[i].name, names[i]) == 0;
        assert_true(is_here || header->tensors[i].first == header->tensors[i].end);
    }
    assert_memory_equal(all, &scalar, sizeof scalar);
    assert_memory_equal(all + 8, bias, sizeof bias);
    assert_memory_equal(all + 20, weight, sizeof weight);
    char hash[HASH_SIZE];
    safe_file_hash(file, hash);
    assert_string_equal(hash, written.hash);
    free(all);
    safe_file_close(file);
}

static void the_same_tensors_give_the_same_bytes(void **state)
{
    (void)state;
    struct error error = { 0 };
    const float numbers[2] = { 3, 4 };
    struct safe_tensor tensor = { .name = "a", .type = SAFE_F32, .dimensions = 1, .shape = { 2 }, .data = numbers };
    struct safe_written first, second;
    assert_good(safetensors_save(path, &tensor, 1, NULL, 0, &first, &error), error);
    assert_good(safetensors_save(path, &tensor, 1, NULL, 0, &second, &error), error);
    assert_string_equal(first.hash, second.hash);
    size_t length;
    char *bytes = text_load(path, &length, &error);
    assert_good(bytes, error);
    static const char want[] = "\x40\0\0\0\0\0\0\0"
                               "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}\n";
    assert_memory_equal(bytes, want, sizeof want - 1);
    assert_int_equal(length, 8 + 0x40 + sizeof numbers);
    free(bytes);
}

// --- what is refused -------------------------------------------------------------------------

struct hostile_row {
    const char *name;
    const char *json;
    uint64_t more;  // than the JSON is long
    size_t data;
    const char *sentence;  // behind "PATH: "
};

#define TENSOR(name, shape, first, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #first "," #end "]}"

static struct hostile_row hostile[] = {
    { "overlapping_data_is_refused", "{" TENSOR("a", "[2]", 0, 8) "," TENSOR("b", "[2]", 4, 12) "}", 0, 12,
      "b: its data begins at 4, and what stands before it ends at 8: they overlap" },
    { "a_hole_is_refused", "{" TENSOR("a", "[1]", 0, 4) "," TENSOR("b", "[1]", 8, 12) "}", 0, 12,
      "b: its data begins at 8, and what stands before it ends at 4: there is a hole" },
    { "the_same_data_twice_is_refused", "{" TENSOR("a", "[1]", 0, 4) "," TENSOR("b", "[1]", 0, 4) "}", 0, 4,
      "b: its data begins at 0, and what stands before it ends at 4: they overlap" },
    { "data_that_nobody_names_is_refused", "{" TENSOR("a", "[1]", 0, 4) "}", 0, 5,
      "its tensors end at byte 4 of the data, and the file has 5 bytes of it" },
    { "a_file_that_is_cut_is_refused", "{" TENSOR("a", "[2]", 0, 8) "}", 0, 7,
      "a.data_offsets[1]: is 8; it must be from 0 to 7" },
    { "a_size_that_overflows_is_refused", "{" TENSOR("a", "[4294967296,4294967296,4]", 0, 4) "}", 0, 4,
      "a.data_offsets: are of 4 bytes, and its shape and dtype of another number" },
    { "a_shape_of_other_bytes_is_refused", "{" TENSOR("a", "[3]", 0, 4) "}", 0, 4,
      "a.data_offsets: are of 4 bytes, and its shape and dtype of another number" },
    { "an_end_before_its_beginning_is_refused", "{" TENSOR("a", "[1]", 8, 4) "}", 0, 8,
      "a.data_offsets: end at 4, before they begin at 8" },
    { "a_name_that_stands_twice_is_refused", "{" TENSOR("a", "[1]", 0, 4) "," TENSOR("a", "[1]", 4, 8) "}", 0, 8,
      "key \"a\" stands twice" },
    { "too_many_dimensions_are_refused", "{" TENSOR("a", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 0, 4,
      "a.shape: has 9 dimensions, more than 8" },
    { "an_unknown_type_is_refused", "{\"a\":{\"dtype\":\"F7\",\"shape\":[],\"data_offsets\":[0,0]}}", 0, 0,
      "a.dtype: " },
    { "an_unknown_key_is_refused", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"b\":1}}", 0, 0,
      "a: " },
    { "notes_that_are_no_strings_are_refused", "{\"__metadata__\":{\"a\":1}}", 0, 0, "__metadata__.a: " },
    { "a_header_that_is_no_object_is_refused", "[1]", 0, 0, "" },
    { "bad_utf8_is_refused", "{\"\xff\":{}}", 0, 0, "" },
    { "a_header_behind_the_end_is_refused", "{}", 1, 0, "its header of 3 bytes ends behind the file's 10" },
    { "a_header_of_4_GiB_is_refused", "{}", 4294967294u, 0, "its header of 4294967296 bytes is longer than 100000000" },
    { "a_header_of_2_to_the_64_is_refused", "{}", UINT64_MAX - 2, 0, "its header of 18446744073709551615 bytes is" },
};

static void is_refused(void **state)
{
    const struct hostile_row *row = *state;
    struct error error = { 0 };
    char want[300];
    write_framed(row->json, strlen(row->json) + row->more, row->data);
    assert_null(safe_file_open(path, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    snprintf(want, sizeof want, "%s: %s", path, row->sentence);
    if (strncmp(error.text, want, strlen(want)) != 0)
        fail_msg("\"%s\" instead of \"%s\"", error.text, want);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct error none = { 0 }, few = { 0 }, pipe = { 0 };
    char want[200];
    unlink(path);
    assert_null(safe_file_open(path, &none));
    snprintf(want, sizeof want, "%s: cannot be read: No such file or directory", path);
    assert_error(none, want);
    write_file("1234567", 7);
    assert_null(safe_file_open(path, &few));
    snprintf(want, sizeof want, "%s: has 7 bytes, and the length of a safetensors header alone takes 8", path);
    assert_error(few, want);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(safe_file_open(path, &pipe));
    snprintf(want, sizeof want, "%s: is not a regular file", path);
    assert_error(pipe, want);
    unlink(path);
}

enum { HOSTILE = sizeof hostile / sizeof hostile[0] };

int main(void)
{
    struct CMUnitTest tests[3 + HOSTILE] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(the_same_tensors_give_the_same_bytes),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    for (size_t i = 0; i < HOSTILE; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(is_refused, &hostile[i]);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
