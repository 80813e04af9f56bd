#include "runtime/checkpoint/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/json.h"
#include "common/path.h"

static const char NAME[] = "step-", ASIDE[] = ".tmp", MANIFEST[] = "manifest.json";

static bool cannot(const char *path, const char *what, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "%.300s: cannot be %s: %s", path, what, strerror(errno));
}

static bool step_path(const char *folder, uint64_t step, const char *suffix, char path[PATH_MAX], struct error *error)
{
    char name[64];
    snprintf(name, sizeof name, "%s%llu%s", NAME, (unsigned long long)step, suffix);
    return path_join(folder, name, path, error);
}

bool run_folder_path(const char *folder, uint64_t step, char *path, struct error *error)
{
    return step_path(folder, step, "", path, error);
}

bool run_folder_aside(const char *folder, uint64_t step, char *path, struct error *error)
{
    return step_path(folder, step, ASIDE, path, error);
}

bool run_folder_make(const char *folder, struct error *error)
{
    struct stat about;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return cannot(folder, "made", error);
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode))
        return error_named(error, "%.300s: is a file, not a folder", folder);
    return access(folder, W_OK | X_OK) == 0 || cannot(folder, "written", error);
}

// Not every file system can lock a folder; an error from one that cannot is ignored.
int run_folder_lock(const char *folder, struct error *error)
{
    const int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) {
        cannot(folder, "read", error);
        return -1;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(lock);
        error_named(error, "%.300s: another run is writing its checkpoints there: give this one a folder of its own",
                    folder);
        return -1;
    }
    return lock;
}

void run_folder_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

// Syncs the names in a folder to disk. Not every file system supports this.
static bool sync_folder(const char *path, struct error *error)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = folder >= 0 && (fsync(folder) == 0 || errno == EINVAL);
    const int trouble = errno;
    if (folder >= 0)
        close(folder);
    errno = trouble;
    return good || cannot(path, "written", error);
}

// --- the names in a folder --------------------------------------------------------------

// Whether the name is step-N followed by `suffix`, exactly as it is written here.
static bool read_name(const char *name, const char *suffix, uint64_t *step)
{
    char *end, again[64];
    if (strncmp(name, NAME, strlen(NAME)) != 0)
        return false;
    const char *digits = name + strlen(NAME);
    *step = strtoull(digits, &end, 10);
    snprintf(again, sizeof again, "%llu%s", (unsigned long long)*step, suffix);
    return end != digits && *step <= JSON_MAX && strcmp(digits, again) == 0;
}

struct steps {
    uint64_t *at;
    size_t count, capacity;
};

static int by_newest(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

// Lists the checkpoints with the suffix, the newest first.
static bool list(const char *folder, const char *suffix, struct steps *steps, struct error *error)
{
    DIR *open = opendir(folder);
    if (!open)
        return error_named(error, "%.300s: cannot be listed: %s", folder, strerror(errno));
    bool good = array_reserve(&steps->at, &steps->capacity, 1, sizeof steps->at[0]);
    for (struct dirent *entry; good && (entry = readdir(open));) {
        uint64_t step;
        if (!read_name(entry->d_name, suffix, &step))
            continue;
        good = array_reserve(&steps->at, &steps->capacity, steps->count + 1, sizeof steps->at[0]);
        if (good)
            steps->at[steps->count++] = step;
    }
    closedir(open);
    if (good)
        qsort(steps->at, steps->count, sizeof steps->at[0], by_newest);
    return good || error_no_memory(error, "the checkpoints of a run");
}

uint64_t *run_folder_steps(const char *folder, size_t *count, struct error *error)
{
    struct steps steps = { 0 };
    if (!list(folder, "", &steps, error)) {
        free(steps.at);
        return NULL;
    }
    *count = steps.count;
    return steps.at;
}

// --- removing -----------------------------------------------------------------------------

// Files that checkpoints consist of. Other files may have been put there by somebody else; they stay, and their
// folder with them.
static bool is_ours(const char *name)
{
    return path_ends_with(name, ".safetensors") || strcmp(name, MANIFEST) == 0 || strcmp(name, "config.json") == 0
        || strcmp(name, "model.safetensors.index.json") == 0 || strncmp(name, ".weir-", 6) == 0;
}

static bool is_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

// Opens a folder to list what is in it, unless it is a link. NULL with errno.
static DIR *open_own(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = folder >= 0 ? fdopendir(folder) : NULL;
    if (folder >= 0 && !list)
        close(folder);
    return list;
}

static bool remove_aside(const char *path, struct error *error)
{
    DIR *open = open_own(path);
    if (!open && (errno == ENOTDIR || errno == ELOOP) && is_link(path))
        return unlinkat(AT_FDCWD, path, 0) == 0 || errno == ENOENT || cannot(path, "removed", error);
    if (!open)
        return errno == ENOENT || cannot(path, "removed", error);
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(open));)
        if (is_ours(entry->d_name))
            good = unlinkat(dirfd(open), entry->d_name, 0) == 0 || errno == ENOENT || cannot(path, "removed", error);
    closedir(open);
    return good && (rmdir(path) == 0 || errno == ENOENT || errno == ENOTEMPTY || cannot(path, "removed", error));
}

static bool is_sign(const char *name)
{
    const size_t length = strlen(RUN_FOLDER_SIGN);
    return strncmp(name, RUN_FOLDER_SIGN, length) == 0 && strlen(name + length) == 16
        && strspn(name + length, "0123456789abcdef") == 16;
}

// Removes what put_sign() of checkpoints.c has left if a run was killed between making and removing it.
static bool remove_signs(const char *folder, struct error *error)
{
    DIR *open = opendir(folder);
    bool good = open || cannot(folder, "listed", error);
    for (struct dirent *entry; good && (entry = readdir(open));)
        if (is_sign(entry->d_name))
            good = unlinkat(dirfd(open), entry->d_name, 0) == 0 || errno == ENOENT
                || cannot(folder, "written", error);
    if (open)
        closedir(open);
    return good;
}

bool run_folder_discard(const char *folder, uint64_t step, struct error *error)
{
    char path[PATH_MAX];
    return run_folder_aside(folder, step, path, error) && remove_aside(path, error);
}

// Removes its name first.
static bool remove_checkpoint(const char *folder, uint64_t step, struct error *error)
{
    char path[PATH_MAX], aside[PATH_MAX];
    if (!run_folder_path(folder, step, path, error) || !step_path(folder, step, ".old.tmp", aside, error)
        || !remove_aside(aside, error))
        return false;
    if (rename(path, aside) != 0)
        return errno == ENOENT || cannot(path, "removed", error);
    return sync_folder(folder, error) && remove_aside(aside, error);
}

bool run_folder_clean(const char *folder, struct error *error)
{
    static const char *const suffixes[] = { ".tmp", ".old.tmp" };
    bool good = remove_signs(folder, error);
    for (size_t i = 0; good && i < 2; i++) {
        struct steps steps = { 0 };
        good = list(folder, suffixes[i], &steps, error);
        for (size_t s = 0; good && s < steps.count; s++) {
            char path[PATH_MAX];
            good = step_path(folder, steps.at[s], suffixes[i], path, error) && remove_aside(path, error);
        }
        free(steps.at);
    }
    return good;
}

bool run_folder_keep(const char *folder, uint64_t step, uint32_t keep, uint64_t best, struct error *error)
{
    struct steps steps = { 0 };
    uint32_t kept = 0;
    bool good = list(folder, "", &steps, error);
    for (size_t s = 0; good && s < steps.count; s++)
        if (steps.at[s] <= step && kept++ >= keep && steps.at[s] != best)
            good = remove_checkpoint(folder, steps.at[s], error);
    free(steps.at);
    return good;
}

// --- writing ------------------------------------------------------------------------------

bool run_folder_begin(const char *folder, uint64_t step, struct error *error)
{
    char path[PATH_MAX];
    struct stat about;
    if (!run_folder_aside(folder, step, path, error))
        return false;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return cannot(path, "made", error);
    if (lstat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return error_set_kind(error, ERROR_MACHINE, "%.300s: is no folder, and in the way of a checkpoint: remove it",
                              path);
    return access(path, W_OK | X_OK) == 0 || cannot(path, "written", error);
}

static bool save_file(const char *folder, const char *name, const struct text *text, struct error *error)
{
    char path[PATH_MAX];
    return path_join(folder, name, path, error) && text_replace(text, path, error);
}

bool run_folder_commit(const char *folder, uint64_t step, const struct run_file *files, size_t count,
                       const struct text *manifest, struct error *error)
{
    char aside[PATH_MAX], path[PATH_MAX];
    if (!run_folder_aside(folder, step, aside, error) || !run_folder_path(folder, step, path, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!save_file(aside, files[i].name, &files[i].text, error))
            return false;
    if (!save_file(aside, MANIFEST, manifest, error) || !sync_folder(aside, error)
        || !remove_checkpoint(folder, step, error))
        return false;
    return (rename(aside, path) == 0 || cannot(path, "written", error)) && sync_folder(folder, error);
}

char *run_folder_manifest(const char *checkpoint, size_t *length, char path[PATH_MAX], struct error *error)
{
    return path_join(checkpoint, MANIFEST, path, error) ? text_load(path, length, error) : NULL;
}
