#include "common/path.h"

#include <string.h>

#include "tests/test.h"

static void a_name_stands_behind_its_folder(void **state)
{
    (void)state;
    struct error error = { 0 };
    char path[PATH_MAX], folder[PATH_MAX];
    assert_good(path_join("a/b", "c.json", path, &error), error);
    assert_string_equal(path, "a/b/c.json");
    memset(folder, 'x', sizeof folder);
    folder[PATH_MAX - 3] = '\0';
    assert_good(path_join(folder, "y", path, &error), error);
    assert_int_equal(strlen(path), PATH_MAX - 1);
    assert_false(path_join(folder, "yz", path, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_non_null(strstr(error.text, "xxx: the path is too long"));
}

static void an_end_is_seen(void **state)
{
    (void)state;
    assert_true(path_ends_with("a.json", ".json"));
    assert_true(path_ends_with(".json", ".json"));
    assert_true(path_ends_with("a", ""));
    assert_false(path_ends_with("json", ".json"));
    assert_false(path_ends_with("a.json.tmp", ".json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_stands_behind_its_folder),
        cmocka_unit_test(an_end_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
