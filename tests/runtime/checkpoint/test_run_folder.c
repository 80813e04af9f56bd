// A run that ends at any moment, or whose disk fails at any call, leaves a checkpoint that is whole: the one before or
// the new one. The functions below stand in for the C library's; each call of theirs has a number.
#include "runtime/checkpoint/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint/layer_file.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/test.h"

// --- a disk that fails ------------------------------------------------------------------------

enum { NEVER = -1, MOST_FILES = 64, LOSES_BYTES = 1, LOSES_NAMES = 2, LOSSES = 4 };

// A name that a folder was given and that was not synced: what it was before, or that there was none.
struct given_name {
    int folder;
    char name[NAME_MAX + 1], before[NAME_MAX + 1];
};

static struct {
    int calls;
    int fails_at, reason;  // that call, and not again
    int ends_at, loses;    // before that call: of what was not synced bytes, names or both are lost
    char names[8000];      // of all calls
    int unsynced[MOST_FILES];
    size_t unsynced_count;
    struct given_name given[MOST_FILES];
    size_t given_count;
} disk = { .fails_at = NEVER, .ends_at = NEVER };

static void lose_what_was_not_synced(void)
{
    for (size_t i = 0; disk.loses & LOSES_BYTES && i < disk.unsynced_count; i++)
        if (ftruncate(disk.unsynced[i], 0) != 0)
            _exit(9);
    for (size_t i = disk.given_count; disk.loses & LOSES_NAMES && i-- > 0;) {
        const struct given_name *given = &disk.given[i];
        const long lost = given->before[0]
            ? syscall(SYS_renameat2, given->folder, given->name, given->folder, given->before, 0)
            : syscall(SYS_unlinkat, given->folder, given->name, 0);
        if (lost != 0)
            _exit(10);
    }
}

// Whether this call is to fail.
static bool call(const char *name)
{
    const int number = disk.calls++;
    const size_t used = strlen(disk.names);
    snprintf(disk.names + used, sizeof disk.names - used, "%s ", name);
    if (number == disk.ends_at) {
        lose_what_was_not_synced();
        _exit(0);
    }
    errno = disk.reason;
    return number == disk.fails_at;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    if (file <= STDERR_FILENO)
        return syscall(SYS_write, file, bytes, length);
    if (disk.unsynced_count < MOST_FILES)
        disk.unsynced[disk.unsynced_count++] = dup(file);
    if (!call("write"))
        return syscall(SYS_write, file, bytes, length);
    const int reason = errno;
    if (length > 1 && syscall(SYS_write, file, bytes, length / 2) < 0)
        return -1;
    errno = reason;
    return -1;
}

static bool is_same(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino;
}

static void note_name(int folder, const char *name, const char *before)
{
    if (disk.given_count == MOST_FILES)
        abort();
    struct given_name *given = &disk.given[disk.given_count++];
    given->folder = dup(folder);
    snprintf(given->name, sizeof given->name, "%s", name);
    snprintf(given->before, sizeof given->before, "%s", before);
}

static void forget_names(int folder)
{
    size_t count = 0;
    for (size_t i = 0; i < disk.given_count; i++)
        if (folder < 0 || is_same(disk.given[i].folder, folder))
            close(disk.given[i].folder);
        else
            disk.given[count++] = disk.given[i];
    disk.given_count = count;
}

int fsync(int file)
{
    if (call("fsync"))
        return -1;
    forget_names(file);
    for (size_t i = 0; i < disk.unsynced_count;)
        if (is_same(disk.unsynced[i], file)) {
            close(disk.unsynced[i]);
            disk.unsynced[i] = disk.unsynced[--disk.unsynced_count];
        } else {
            i++;
        }
    return 0;
}

int rename(const char *from, const char *to)
{
    char parent[PATH_MAX];
    if (call("rename") || syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) != 0)
        return -1;
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(to, '/') - to), to);
    const int folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    note_name(folder, strrchr(to, '/') + 1, strrchr(from, '/') + 1);
    close(folder);
    return 0;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (call("renameat") || syscall(SYS_renameat2, from_folder, from, to_folder, to, 0) != 0)
        return -1;
    note_name(to_folder, to, from);
    return 0;
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (call("linkat") || syscall(SYS_linkat, from_folder, from, to_folder, to, flags) != 0)
        return -1;
    note_name(to_folder, to, "");
    return 0;
}

int unlinkat(int folder, const char *name, int flags)
{
    return call("unlinkat") ? -1 : (int)syscall(SYS_unlinkat, folder, name, flags);
}

int rmdir(const char *path)
{
    return call("rmdir") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode)
{
    return call("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static void mend(void)
{
    for (size_t i = 0; i < disk.unsynced_count; i++)
        close(disk.unsynced[i]);
    disk.calls = 0;
    disk.fails_at = disk.ends_at = NEVER;
    disk.names[0] = '\0';
    disk.unsynced_count = 0;
    forget_names(-1);
}

// --- checkpoints of two layers ------------------------------------------------------------------

enum { NUMBERS = 64, LAYERS = 2 };

static const struct lasting_tensor tensors[] = { { .name = "weight", .rows = 4, .columns = 8 },
                                                 { .name = "bias", .known_as = "b", .rows = 1, .columns = 5, .first = 32 } };
static const struct lasting_layer layers[LAYERS] = {
    { .name = "one", .tensors = tensors, .tensor_count = 2, .numbers = NUMBERS },
    { .name = "two", .tensors = tensors, .tensor_count = 2, .numbers = NUMBERS },
};
static const struct lasting_form form = { PRECISION_FP32, OPTIMIZER_ADAMW };

static char folder[] = "/tmp/weir-folder-XXXXXX";

struct numbers {
    float parts[3][NUMBERS];
};

// Different ones for each step, layer and part; gaps are zeros.
static struct numbers numbers_of(uint64_t step, size_t layer)
{
    struct numbers numbers = { 0 };
    for (size_t part = 0; part < 3; part++)
        for (size_t i = 0; i < 37; i++)
            numbers.parts[part][i] = (float)(step * 1000 + layer * 500 + part * 100 + i);
    return numbers;
}

static bool save(uint64_t step, struct error *error)
{
    char aside[PATH_MAX];
    char model[] = "made", one[] = "one", two[] = "two";
    struct manifest_layer of[LAYERS] = { { .name = one }, { .name = two } };
    struct manifest manifest = { .model = model, .steps = 100, .step = step, .passes = step, .layers = of,
                                 .layer_count = LAYERS };
    manifest.plan.ranks = manifest.plan.stages = manifest.plan.micro_batches = manifest.plan.flush_every = 1;
    bool good = run_folder_begin(folder, step, error) && run_folder_aside(folder, step, aside, error);
    for (size_t l = 0; good && l < LAYERS; l++) {
        struct numbers numbers = numbers_of(step, l);
        void *const parts[LASTING_PARTS] = { numbers.parts[0], numbers.parts[1], numbers.parts[2] };
        good = layer_file_save(aside, &form, &layers[l], step, parts, &of[l].written, error);
    }
    struct text text = { 0 };
    manifest_write(&manifest, &text);
    good = good && run_folder_commit(folder, step, NULL, 0, &text, error) && run_folder_keep(folder, step, 1, 0, error);
    text_clear(&text);
    return good;
}

static bool is_whole(uint64_t step)
{
    struct error error = { 0 };
    char path[PATH_MAX], file[PATH_MAX];
    size_t length;
    assert_true(run_folder_path(folder, step, path, &error));
    char *text = run_folder_manifest(path, &length, file, &error);
    struct manifest *manifest = text ? manifest_read(text, length, file, &error) : NULL;
    bool good = manifest && manifest->step == step;
    for (size_t l = 0; good && l < LAYERS; l++) {
        struct numbers found, want = numbers_of(step, l);
        memset(&found, 1, sizeof found);
        void *const parts[LASTING_PARTS] = { found.parts[0], found.parts[1], found.parts[2] };
        good = layer_file_load(path, &form, &layers[l], &manifest->layers[l].written, parts, &error);
        if (good)
            assert_memory_equal(&found, &want, sizeof want);
    }
    manifest_free(manifest);
    free(text);
    return good;
}

// Every one that has a name, and returns the newest; 0: none.
static uint64_t newest_whole(const char *when)
{
    struct error error = { 0 };
    size_t count;
    uint64_t *steps = run_folder_steps(folder, &count, &error);
    assert_good(steps, error);
    const uint64_t newest = count > 0 ? steps[0] : 0;
    for (size_t i = 0; i < count; i++)
        if (!is_whole(steps[i]))
            fail_msg("%s: step-%llu has its name and is not whole", when, (unsigned long long)steps[i]);
    free(steps);
    return newest;
}

static size_t names_in_folder(void)
{
    size_t count = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static void begin_with_step_1(void)
{
    struct error error = { 0 };
    mend();
    assert_good(run_folder_keep(folder, UINT64_MAX, 0, 0, &error) && run_folder_clean(folder, &error), error);
    assert_int_equal(names_in_folder(), 0);
    assert_good(save(1, &error), error);
    mend();
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error error = { 0 };
    mend();
    return run_folder_keep(folder, UINT64_MAX, 0, 0, &error) && run_folder_clean(folder, &error) ? rmdir(folder) : -1;
}

// --- what must hold -----------------------------------------------------------------------------

static int count_calls(void)
{
    struct error error = { 0 };
    begin_with_step_1();
    assert_good(save(2, &error), error);
    const int calls = disk.calls;
    assert_int_equal(newest_whole("in the end"), 2);
    assert_int_equal(names_in_folder(), 1);
    return calls;
}

// Of what was not synced bytes, names, both or neither are lost, as where only the run ends and not its machine.
static void end_at(int at, int loses)
{
    begin_with_step_1();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error = { 0 };
        disk.ends_at = at;
        disk.loses = loses;
        save(2, &error);
        _exit(8);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_layer_without_numbers_has_no_file(void **state)
{
    (void)state;
    static const struct lasting_layer bare = { .name = "bare" };
    struct layer_written written = { .weights.bytes = 1, .optimizer.bytes = 1 };
    void *const none[LASTING_PARTS] = { NULL };
    struct error error = { 0 };
    struct numbers numbers;
    void *const parts[LASTING_PARTS] = { numbers.parts[0], numbers.parts[1], numbers.parts[2] };
    begin_with_step_1();
    assert_good(layer_file_save(folder, &form, &bare, 1, none, &written, &error), error);
    assert_int_equal(names_in_folder(), 1);
    assert_true(written.weights.bytes == 0 && written.optimizer.bytes == 0);
    assert_good(layer_file_load(folder, &form, &bare, &written, none, &error), error);
    assert_false(layer_file_load(folder, &form, &layers[0], &written, parts, &error));
    assert_non_null(strstr(error.text, ": its manifest names no file with the weights of layer one"));
}

static void a_run_that_ends_at_any_call_leaves_a_whole_checkpoint(void **state)
{
    (void)state;
    const int calls = count_calls();
    uint64_t before[LOSSES] = { 1, 1, 1, 1 };
    for (int at = 0; at < calls * LOSSES; at++) {
        struct error error = { 0 };
        char when[64];
        const int loses = at % LOSSES;
        snprintf(when, sizeof when, "ended before call %d of %d, loses %d", at / LOSSES, calls, loses);
        end_at(at / LOSSES, loses);
        const uint64_t newest = newest_whole(when);
        if (newest < before[loses] || newest > 2)
            fail_msg("%s: the newest is step-%llu", when, (unsigned long long)newest);
        before[loses] = newest;
        // What is left over goes, and the next run saves as ever.
        assert_good(run_folder_clean(folder, &error), error);
        newest_whole(when);
        assert_good(save(3, &error), error);
        assert_int_equal(newest_whole(when), 3);
        assert_int_equal(names_in_folder(), 1);
    }
    for (int loses = 0; loses < LOSSES; loses++)
        assert_int_equal(before[loses], 2);
}

static void a_disk_that_fails_at_any_call_leaves_a_whole_checkpoint(void **state)
{
    (void)state;
    static const int reasons[] = { ENOSPC, EIO };
    const int calls = count_calls();
    for (int at = 0; at < 2 * calls; at++) {
        struct error error = { 0 }, none = { 0 };
        char when[64];
        snprintf(when, sizeof when, "call %d of %d fails", at / 2, calls);
        begin_with_step_1();
        disk.fails_at = at / 2;
        disk.reason = reasons[at % 2];
        const bool good = save(2, &error);
        mend();
        const uint64_t newest = newest_whole(when);
        if (newest < 1 || newest > 2 || (good && newest != 2))
            fail_msg("%s: the newest is step-%llu", when, (unsigned long long)newest);
        if (!good && (error.kind != ERROR_MACHINE || !strstr(error.text, strerror(reasons[at % 2]))
                      || !strstr(error.text, folder)))
            fail_msg("%s: \"%s\"", when, error.text);
        assert_good(run_folder_discard(folder, 2, &none) && save(3, &none), none);
        assert_int_equal(newest_whole(when), 3);
        assert_good(run_folder_clean(folder, &none), none);
        assert_int_equal(names_in_folder(), 1);
    }
}

static void the_best_stays_beside_the_newest(void **state)
{
    (void)state;
    struct error error = { 0 };
    begin_with_step_1();
    for (uint64_t step = 2; step <= 5; step++) {
        char path[PATH_MAX];
        assert_good(run_folder_begin(folder, step, &error) && run_folder_aside(folder, step, path, &error), error);
        assert_good(run_folder_commit(folder, step, NULL, 0, &(struct text){ .data = (char[]){ "{}" }, .length = 2 }, &error),
                    error);
    }
    static const struct {
        uint64_t step, best;
        uint32_t keep;
        const char *left;
    } rows[] = {
        { 4, 1, 3, "12345" },  // behind the step nobody looks
        { 5, 2, 3, "2345" },
        { 5, 2, 2, "245" },
        { 5, 5, 2, "45" },     // the best is one of the newest
        { 5, 1, 1, "5" },      // it is not there any more
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char left[10] = "";
        assert_good(run_folder_keep(folder, rows[i].step, rows[i].keep, rows[i].best, &error), error);
        size_t count;
        uint64_t *steps = run_folder_steps(folder, &count, &error);
        assert_good(steps, error);
        for (size_t s = count; s-- > 0;)
            snprintf(left + strlen(left), sizeof left - strlen(left), "%llu", (unsigned long long)steps[s]);
        free(steps);
        assert_string_equal(left, rows[i].left);
    }
}

static void other_peoples_files_stay(void **state)
{
    (void)state;
    struct error error = { 0 };
    char path[200];
    begin_with_step_1();
    snprintf(path, sizeof path, "%s/step-1/notes.txt", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_good(save(2, &error), error);
    snprintf(path, sizeof path, "%s/step-1.old.tmp/notes.txt", folder);
    assert_int_equal(access(path, F_OK), 0);
    // A sign that a killed rank 0 has left goes; what only looks like one stays.
    static const char *const signs[] = { ".weir-0123456789abcdef", ".weir-0123456789abcdeg", ".weir-rc" };
    char sign[3][200];
    for (size_t i = 0; i < 3; i++) {
        snprintf(sign[i], sizeof sign[i], "%s/%s", folder, signs[i]);
        close(open(sign[i], O_CREAT | O_WRONLY, 0600));
    }
    assert_good(run_folder_clean(folder, &error), error);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(newest_whole("with notes"), 2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(access(sign[0], F_OK), -1);
    assert_int_equal(unlink(sign[1]), 0);
    assert_int_equal(unlink(sign[2]), 0);
}

// Where an operator keeps a checkpoint: "elsewhere" has all names that checkpoints have.
static const char *const kept_elsewhere[] = { "manifest.json", "config.json", "one.safetensors",
                                              "one.optimizer.safetensors", ".weir-0123456789abcdef" };
enum { KEPT = sizeof kept_elsewhere / sizeof kept_elsewhere[0] };

static void put_elsewhere(const char *elsewhere)
{
    char path[300];
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    for (size_t i = 0; i < KEPT; i++) {
        snprintf(path, sizeof path, "%s/%s", elsewhere, kept_elsewhere[i]);
        const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        assert_true(file >= 0 && syscall(SYS_write, file, "kept", 4) == 4);
        close(file);
    }
}

// All of it, as it was, and nothing more.
static void assert_elsewhere(const char *elsewhere, const char *when)
{
    struct stat status;
    char path[300];
    size_t count = 0;
    DIR *open = opendir(elsewhere);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    for (size_t i = 0; i < KEPT; i++) {
        snprintf(path, sizeof path, "%s/%s", elsewhere, kept_elsewhere[i]);
        if (lstat(path, &status) != 0 || status.st_size != 4 || count != KEPT)
            fail_msg("%s: %s is not what it was (%zu files)", when, path, count);
    }
}

static void remove_elsewhere(const char *elsewhere)
{
    char path[300];
    for (size_t i = 0; i < KEPT; i++) {
        snprintf(path, sizeof path, "%s/%s", elsewhere, kept_elsewhere[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(elsewhere), 0);
}

static bool is_there(const char *name)
{
    struct stat status;
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &status) == 0;
}

static void put_link(const char *to, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(to, path), 0);
}

// Absolute and relative ones, to folders, files and nothing: each goes, and what it points to stays.
static void a_link_goes_and_what_it_points_to_stays(void **state)
{
    (void)state;
    static const char *const removed[] = { "step-7", "step-3.tmp", "step-2.old.tmp" };
    struct error error = { 0 };
    char elsewhere[100], file[200], relative[120];
    begin_with_step_1();
    snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", folder);
    snprintf(relative, sizeof relative, "../%s", strrchr(elsewhere, '/') + 1);
    snprintf(file, sizeof file, "%s/manifest.json", elsewhere);
    put_elsewhere(elsewhere);
    const char *const targets[] = { elsewhere, relative, file, "nowhere" };
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++)
            put_link(targets[t], removed[i]);
        assert_good(save(9, &error) && run_folder_keep(folder, 9, 1, 0, &error), error);  // step-7 is an old one
        assert_good(run_folder_clean(folder, &error), error);
        assert_elsewhere(elsewhere, targets[t]);
        for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++)
            assert_false(is_there(removed[i]));
        assert_true(is_whole(9));
    }
    // One that has the name of the checkpoint that is written is replaced.
    put_link(elsewhere, "step-10");
    assert_good(save(10, &error), error);
    assert_elsewhere(elsewhere, "step-10");
    assert_true(is_whole(10));
    remove_elsewhere(elsewhere);
}

static void nothing_is_written_through_a_link(void **state)
{
    (void)state;
    struct error error = { 0 };
    char elsewhere[100], path[PATH_MAX], target[200], want[300];
    begin_with_step_1();
    snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", folder);
    put_elsewhere(elsewhere);
    put_link(elsewhere, "step-2.tmp");
    assert_false(save(2, &error));
    snprintf(want, sizeof want, "%s/step-2.tmp: is no folder, and in the way of a checkpoint: remove it", folder);
    assert_error(error, want);
    assert_int_equal(error.kind, ERROR_MACHINE);
    error = (struct error){ 0 };
    assert_good(run_folder_discard(folder, 2, &error), error);
    assert_false(is_there("step-2.tmp"));
    // A file of a checkpoint that was a link.
    assert_good(run_folder_begin(folder, 3, &error) && run_folder_aside(folder, 3, path, &error), error);
    snprintf(target, sizeof target, "%s/one.safetensors", elsewhere);
    put_link(target, "step-3.tmp/one.safetensors");
    snprintf(target, sizeof target, "%s/manifest.json", elsewhere);
    put_link(target, "step-3.tmp/manifest.json");
    assert_good(save(3, &error), error);
    assert_true(is_whole(3));
    assert_elsewhere(elsewhere, "files of a checkpoint");
    remove_elsewhere(elsewhere);
}

static void only_names_as_they_are_written_are_checkpoints(void **state)
{
    (void)state;
    static const char *const names[] = { "step-", "step-01", "step-x", "step-1x", "step--1",
                                         "step-99999999999999999999", "step-3.tmp", "steps", "step-+1", "step- 1" };
    struct error error = { 0 };
    char path[200];
    begin_with_step_1();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_int_equal(newest_whole("with others"), 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(rmdir(path), 0);
    }
    assert_good(save(2, &error), error);
}

static void what_cannot_be_a_folder_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    size_t count;
    char path[200], want[300];
    mend();
    snprintf(path, sizeof path, "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_false(run_folder_make(path, &error));
    snprintf(want, sizeof want, "%s: is a file, not a folder", path);
    assert_error(error, want);
    assert_int_equal(error.kind, ERROR_INPUT);
    error = (struct error){ 0 };
    assert_null(run_folder_steps(path, &count, &error));
    assert_non_null(strstr(error.text, "cannot be listed"));
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_without_numbers_has_no_file),
        cmocka_unit_test(a_run_that_ends_at_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(a_disk_that_fails_at_any_call_leaves_a_whole_checkpoint),
        cmocka_unit_test(the_best_stays_beside_the_newest),
        cmocka_unit_test(other_peoples_files_stay),
        cmocka_unit_test(a_link_goes_and_what_it_points_to_stays),
        cmocka_unit_test(nothing_is_written_through_a_link),
        cmocka_unit_test(only_names_as_they_are_written_are_checkpoints),
        cmocka_unit_test(what_cannot_be_a_folder_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
