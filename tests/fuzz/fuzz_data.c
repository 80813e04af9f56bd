// Whatever the bytes, reading a document of data ends in one, which is written as it was read, or in one sentence. So
// does reading files that data are made of. What is accepted can be read, sample by sample.
//
//     {...} NUL numbers          a document, and the file of numbers beside it
//     c FILE                     a file in Criteo's form
//     m FILE NUL FILE NUL FILE   RecBole's three files
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trainer/data/criteo.h"
#include "trainer/data/movielens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

// --- documents and numbers -------------------------------------------------------------------

static bool read_document(const char *text, size_t length, struct sample_data *data)
{
    struct error error = { 0 };
    struct json_document *document = json_parse(text, length, "fuzz", &error);
    const bool good = document && sample_data_read(document, data, &error);
    check(good == (error.kind == ERROR_NONE));
    json_free(document);
    return good;
}

static void read_samples(const struct sample_data *data)
{
    for (uint64_t i = 0; i < data->train + data->held; i++) {
        struct click_sample sample;
        uint32_t k = 0;
        click_data_at(data, (struct sample_place){ i, 0 }, &sample);
        check(sample.label == 0 || sample.label == 1);
        for (size_t s = 0; s < click_data_slots(data); s++)
            for (; k < sample.ends[s]; k++)
                check(sample.ids[k] < click_data_ids(data, s));
    }
}

// The numbers of a document: as many of the bytes as it says, and zeros.
static void read_numbers(struct sample_data *data, const uint8_t *bytes, size_t size)
{
    enum { MOST = 1 << 16 };
    struct error error = { 0 };
    if (data->clicks.slot_count == 0 || data->bytes > MOST)
        return;
    unsigned char *numbers = calloc(1, data->bytes);
    check(numbers);
    memcpy(numbers, bytes, size < data->bytes ? size : data->bytes);
    const bool good = click_fields_check(&data->clicks, data->train + data->held, numbers, "fuzz", &error);
    check(good == (error.kind == ERROR_NONE));
    data->numbers = numbers;
    if (good)
        read_samples(data);
    free(numbers);
}

static void fuzz_document(const uint8_t *bytes, size_t size)
{
    const uint8_t *end = memchr(bytes, 0, size);
    const size_t length = end ? (size_t)(end - bytes) : size;
    struct sample_data data, again;
    struct text first = { 0 }, second = { 0 };
    if (!read_document((const char *)bytes, length, &data))
        return;
    sample_data_put(&data, &first);
    check(read_document(first.data, first.length, &again));
    sample_data_put(&again, &second);
    check(strcmp(first.data, second.data) == 0);
    read_numbers(&data, bytes + length, size - length);
    text_clear(&first);
    text_clear(&second);
}

// --- files that data are made of -------------------------------------------------------------

struct fuzz_file {
    int file;
    char path[64];
};

static void open_file(struct fuzz_file *file, const uint8_t *bytes, size_t size)
{
    file->file = memfd_create("fuzz", 0);
    check(file->file >= 0 && write(file->file, bytes, size) == (ssize_t)size);
    snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->file);
}

// What was collected is what a reader of documents accepts.
static void check_collected(const struct click_writer *writer)
{
    const size_t slots = writer->fields.slot_count;
    const uint32_t *ends = (const void *)writer->ends.data;
    struct error error = { 0 };
    struct text all = { 0 };
    uint64_t start = 0;
    for (uint64_t i = 0; i < writer->samples; i++) {
        text_add_bytes(&all, (const char *)&start, sizeof start);
        start += ends[(i + 1) * slots - 1];
    }
    text_add_bytes(&all, writer->numbers.data, writer->numbers.length);
    text_add_bytes(&all, writer->ends.data, writer->ends.length);
    text_add_bytes(&all, writer->ids.data, writer->ids.length);
    text_add_bytes(&all, writer->labels.data, writer->labels.length);
    check(click_fields_check(&writer->fields, writer->samples, (const unsigned char *)all.data, "fuzz", &error));
    text_clear(&all);
}

static void fuzz_files(const uint8_t *bytes, size_t size, bool is_criteo)
{
    struct fuzz_file files[MOVIELENS_FILES];
    struct click_writer writer = { .samples = 0 };
    struct error error = { 0 };
    uint64_t train = 0;
    for (int f = 0; f < MOVIELENS_FILES; f++) {
        const uint8_t *end = is_criteo || f == MOVIELENS_FILES - 1 ? NULL : memchr(bytes, 0, size);
        const size_t length = end ? (size_t)(end - bytes) : size;
        open_file(&files[f], bytes, length);
        bytes += length + (end != NULL);
        size -= length + (end != NULL);
    }
    char *const paths[] = { files[0].path, files[1].path, files[2].path };
    const bool good = is_criteo ? criteo_read(paths, 1, 100, &writer, &train, &error)
                                : movielens_read(paths, size % 2 == 0, &writer, &train, &error);
    check(good == (error.kind == ERROR_NONE));
    check(!good || (train > 0 && train < writer.samples));
    if (writer.samples > 0)
        check_collected(&writer);
    click_writer_clear(&writer);
    for (int f = 0; f < MOVIELENS_FILES; f++)
        close(files[f].file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > 0 && (bytes[0] == 'c' || bytes[0] == 'm'))
        fuzz_files(bytes + 1, size - 1, bytes[0] == 'c');
    else
        fuzz_document(bytes, size);
    return 0;
}
