#include "device/plugin.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "tests/test.h"

// Beside this program the build has put a folder for each plug-in that it plays.
static void folder_of_played(const char *name, char folder[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    assert_true(length > 0);
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    snprintf(slash, (size_t)(folder + PATH_MAX - slash), "/played/%s", name);
}

static struct row {
    const char *name, *folder, *asked;
    const char *sentence;  // %s stands for the folder
    enum error_kind kind;
} rows[] = {
    { "a sound plug-in makes the device", "sound", "cuda:3", "the played plug-in has no GPU 3", ERROR_MACHINE },
    { "the part behind the colon may be missing", "sound", "cuda", "the played plug-in has no GPU ", ERROR_MACHINE },
    { "a plug-in of another version is refused", "other_version", "cuda",
      "%s/weir-cuda.so is of Weir 0.0.7, and this is Weir " WEIR_VERSION " (install both from one build)", ERROR_MACHINE },
    { "a plug-in of other headers is refused", "other_build", "cuda",
      "%s/weir-cuda.so is of another build of Weir " WEIR_VERSION " (install both from one build)", ERROR_MACHINE },
    { "something else of that name is refused", "stranger", "cuda", "%s/weir-cuda.so is no plug-in of Weir's",
      ERROR_MACHINE },
    { "a folder without the plug-in is named", "empty", "cuda:bf16",
      "there is no weir-cuda.so in $WEIR_PLUGINS, which is \"%s\"", ERROR_MACHINE },
};

static void a_device_of_a_plugin(void **state)
{
    const struct row *row = *state;
    char folder[PATH_MAX], expected[PATH_MAX + 200];
    folder_of_played(row->folder, folder);
    const char *place = strstr(row->sentence, "%s");
    snprintf(expected, sizeof expected, "%.*s%s%s", place ? (int)(place - row->sentence) : (int)strlen(row->sentence),
             row->sentence, place ? folder : "", place ? place + 2 : "");
    expected[sizeof((struct error *)NULL)->text - 1] = '\0';
    setenv("WEIR_PLUGINS", folder, 1);
    struct error error = { 0 };
    assert_null(device_open(row->asked, &error));
    unsetenv("WEIR_PLUGINS");
    assert_error(error, expected);
    assert_int_equal(error.kind, row->kind);
}

static void what_is_no_shared_object_is_refused_with_the_loader_s_reason(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-plugin-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/weir-cuda.so", folder);
    FILE *file = fopen(path, "w");
    fputs("no shared object", file);
    fclose(file);
    setenv("WEIR_PLUGINS", folder, 1);
    struct error error = { 0 };
    assert_null(plugin_open("cuda", &error));
    unsetenv("WEIR_PLUGINS");
    unlink(path);
    rmdir(folder);
    assert_non_null(strstr(error.text, "weir-cuda.so cannot be opened: "));
    assert_non_null(strstr(error.text, "file too short"));
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void without_a_place_the_folders_beside_the_program_are_tried(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(plugin_open("nobody-has-this", &error));
    assert_error(error, "weir-nobody-has-this.so is not installed, in lib/weir beside the program's bin"
                        " (\"scons nobody-has-this=yes install\" builds it; WEIR_PLUGINS names a folder that has it)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(a_device_of_a_plugin, &rows[0]),
        TEST_ROW(a_device_of_a_plugin, &rows[1]),
        TEST_ROW(a_device_of_a_plugin, &rows[2]),
        TEST_ROW(a_device_of_a_plugin, &rows[3]),
        TEST_ROW(a_device_of_a_plugin, &rows[4]),
        TEST_ROW(a_device_of_a_plugin, &rows[5]),
        cmocka_unit_test(what_is_no_shared_object_is_refused_with_the_loader_s_reason),
        cmocka_unit_test(without_a_place_the_folders_beside_the_program_are_tried),
    };
    unsetenv("WEIR_PLUGINS");
    return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
