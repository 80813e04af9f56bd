#include "profiler/estimate/rated_device.h"

#include <string.h>

#include "tests/document.h"
#include "tests/test.h"

static void the_example_of_the_page_is_read_and_written_byte_for_byte(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rated_device device;
    struct text again = { 0 };
    char *text = test_document("docs/formats/device.md");
    assert_true(rated_device_read(text, strlen(text), "d.json", &device, &error));
    assert_int_equal(rated_device_product(&device, "fp8")->gigaflops, 1978000);
    assert_null(rated_device_product(&device, "fp4"));
    rated_device_write(&device, &again);
    assert_string_equal(again.data, text);
    text_clear(&again);
    free(text);
}

static void built_in_ones_are_found_by_name(void **state)
{
    (void)state;
    const char *const names[] = { "a100-40", "a100-80", "b200",   "b300",   "gb200",  "gb300",
                                  "h100-sxm", "h200",   "h800",   "mi300x", "v100-32" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error error = { 0 };
        struct rated_device device;
        if (!rated_device_load(names[i], &device, &error))
            fail_msg("%s", error.text);
        assert_string_equal(device.name, names[i]);
        assert_non_null(rated_device_product(&device, "fp16"));
        struct text text = { 0 };
        rated_device_write(&device, &text);
        assert_string_equal(text.data, rated_device_documents[i]);
        text_clear(&text);
    }
    struct error error = { 0 };
    struct rated_device device;
    assert_good(rated_device_load("h100", &device, &error), error);
    assert_string_equal(device.name, "h100-sxm");
    assert_false(rated_device_load("h101", &device, &error));
    assert_non_null(strstr(error.text, "\"h101\" is none of the built-in devices (a100-40, "));
    assert_non_null(strstr(error.text, "nor a file, which has a \".\" or a \"/\" in its name"));
}

static void refuses(const char *from, const char *to, const char *sentence)
{
    struct error error = { 0 };
    struct rated_device device;
    char *text = test_document_with("docs/formats/device.md", from, to);
    assert_false(rated_device_read(text, strlen(text), "d.json", &device, &error));
    assert_string_equal(error.text, sentence);
    free(text);
}

static void bad_documents_are_refused_with_the_place(void **state)
{
    (void)state;
    refuses("\"multiprocessors\": 132", "\"multiprocessors\": 0",
            "d.json: multiprocessors: is 0; it must be from 1 to 1048576");
    refuses("\"fp8\"", "\"bf16\"", "d.json: products[1].dtype: \"bf16\" is there twice");
    refuses("\"host_ns\"", "\"host\"", "d.json: host_ns: is missing");
    refuses("\"version\": 1", "\"version\": 2", "d.json: version: is 2; this Weir reads version 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_is_read_and_written_byte_for_byte),
        cmocka_unit_test(built_in_ones_are_found_by_name),
        cmocka_unit_test(bad_documents_are_refused_with_the_place),
    };
    return cmocka_run_group_tests_name("rated_device", tests, NULL, NULL);
}
