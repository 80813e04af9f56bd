#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct bytes {
    const struct output_part *parts;
    size_t count;
};

static bool write_part(int file, struct output_part part)
{
    while (part.length > 0) {
        const ssize_t wrote = write(file, part.at, part.length);
        if (wrote < 0 && errno != EINTR)
            return false;
        if (wrote > 0) {
            part.at = (const char *)part.at + wrote;
            part.length -= (size_t)wrote;
        }
    }
    return true;
}

static bool write_all(int file, struct bytes bytes)
{
    bool good = true;
    for (size_t i = 0; good && i < bytes.count; i++)
        good = write_part(file, bytes.parts[i]);
    return good;
}

// The sentence for errno about writing `path`.
static bool cannot_write(const char *path, struct error *error)
{
    if (errno == ENOMEM)
        return error_no_memory(error, path);
    return error_set_kind(error, ERROR_MACHINE, "%s: cannot be written: %s", path, strerror(errno));
}

// --- targets that are written to, not replaced --------------------------------------------

// The open file that a name such as "-", "/dev/stdout" or "/dev/fd/63" refers to, or -1. Opening it again by that
// name would begin at its first byte, or replace what the shell appends to.
static int descriptor_of(const char *path)
{
    static const char *const standard[] = { "", "/dev/stdout", "/dev/stderr" };
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    if (strcmp(path, "-") == 0)
        return STDOUT_FILENO;
    for (int number = STDOUT_FILENO; number <= STDERR_FILENO; number++)
        if (strcmp(path, standard[number]) == 0)
            return number;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const size_t length = strlen(folders[i]);
        const char *number = path + length;
        if (strncmp(path, folders[i], length) == 0 && *number && strlen(number) < 10
            && strspn(number, "0123456789") == strlen(number))
            return atoi(number);
    }
    return -1;
}

static bool write_to_descriptor(int file, const char *path, struct bytes bytes, struct error *error)
{
    fflush(stdout);  // earlier output comes first
    return write_all(file, bytes) || cannot_write(strcmp(path, "-") == 0 ? "standard output" : path, error);
}

// Writes to a pipe or a device.
static bool write_in_place(const char *path, struct bytes bytes, struct error *error)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0)
        return cannot_write(path, error);
    const bool wrote = write_all(file, bytes) || cannot_write(path, error);
    return (close(file) == 0 || cannot_write(path, error)) && wrote;
}

// --- the temporary file ------------------------------------------------------------------

// A new file in the folder of the file that it will replace. It has no name while it is written, so a program that
// is killed leaves nothing behind. If the file system has no such files, it has a name that cannot be guessed.
struct aside {
    int folder, file;
    bool is_named;
    char name[sizeof ".weir-0123456789abcdef"];
};

static bool aside_open(struct aside *aside)
{
    unsigned long long chance;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return false;
    snprintf(aside->name, sizeof aside->name, ".weir-%016llx", chance);
    aside->file = -1;
    if (access("/proc/self/fd", X_OK) == 0)  // the path by which it gets its name
        aside->file = openat(aside->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (aside->file >= 0)
        return true;
    aside->file = openat(aside->folder, aside->name, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
    aside->is_named = aside->file >= 0;
    return aside->is_named;
}

static bool aside_give_name(struct aside *aside)
{
    char fd_path[64];
    snprintf(fd_path, sizeof fd_path, "/proc/self/fd/%d", aside->file);
    aside->is_named = linkat(AT_FDCWD, fd_path, aside->folder, aside->name, AT_SYMLINK_FOLLOW) == 0;
    return aside->is_named;
}

// Changes the mode only if it differs, since not every file system supports that.
static bool aside_set_mode(const struct aside *aside, mode_t mode)
{
    struct stat made;
    return fstat(aside->file, &made) == 0
        && ((made.st_mode & 07777) == mode || fchmod(aside->file, mode) == 0);
}

// Finishes: the file either becomes `target` or disappears. Returns 0, or errno.
static int aside_finish(struct aside *aside, struct bytes bytes, const mode_t *mode, const char *target)
{
    const bool good = write_all(aside->file, bytes) && (!mode || aside_set_mode(aside, *mode))
                   && fsync(aside->file) == 0 && (aside->is_named || aside_give_name(aside));
    int trouble = good ? 0 : errno;
    if (close(aside->file) != 0 && trouble == 0)
        trouble = errno;
    if (trouble == 0 && renameat(aside->folder, aside->name, aside->folder, target) != 0)
        trouble = errno;
    if (trouble != 0 && aside->is_named)
        unlinkat(aside->folder, aside->name, 0);
    return trouble;
}

// Some file systems cannot sync a folder's names, and a folder that may be written but not read cannot be synced.
static int sync_folder(int folder)
{
    return fsync(folder) == 0 || errno == EINVAL || errno == EBADF ? 0 : errno;
}

// No signal ends the program while the temporary file has a name. Signals wait until it has the target's name, or is
// gone.
static int replace_in_folder(int folder, struct bytes bytes, const mode_t *mode, const char *target)
{
    sigset_t all, before;
    struct aside aside = { .folder = folder };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int trouble = aside_open(&aside) ? aside_finish(&aside, bytes, mode, target) : errno;
    if (trouble == 0)
        trouble = sync_folder(folder);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return trouble;
}

// --- the whole ---------------------------------------------------------------------------

static int open_folder(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder < 0 && errno == EACCES ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : folder;
}

// Works relative to the open folder, so that it is the same folder from the first step to the last.
static bool replace(const char *target, struct bytes bytes, const mode_t *mode)
{
    const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
    char path[PATH_MAX] = ".";
    if (name - target >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (slash)  // including the slash, which is all of "/"
        snprintf(path, sizeof path, "%.*s", (int)(name - target), target);
    const int folder = open_folder(path);
    if (folder < 0)
        return false;
    const int trouble = replace_in_folder(folder, bytes, mode, name);
    close(folder);
    errno = trouble;
    return trouble == 0;
}

static bool save_new(const char *path, struct bytes bytes, struct error *error)
{
    struct stat link;
    if (lstat(path, &link) == 0)
        return error_named(error, "%s: is a link to a file that is not there; make that file, or remove the link",
                           path);
    if (*path && path[strlen(path) - 1] == '/')
        return error_named(error, "%s: is a folder, not a file", path);
    return replace(path, bytes, NULL) || cannot_write(path, error);
}

// The file that a link points to is replaced, not the link. A file without write permission is not replaced either.
static bool save_over(const char *path, mode_t mode, struct bytes bytes, struct error *error)
{
    char *target = realpath(path, NULL);
    const bool good = (target && faccessat(AT_FDCWD, target, W_OK, AT_EACCESS) == 0 && replace(target, bytes, &mode))
                   || cannot_write(path, error);
    free(target);
    return good;
}

bool output_save(const char *path, const char *data, size_t length, struct error *error)
{
    return output_save_parts(path, &(struct output_part){ data, length }, 1, error);
}

bool output_save_parts(const char *path, const struct output_part *parts, size_t count, struct error *error)
{
    const struct bytes bytes = { parts, count };
    const int descriptor = descriptor_of(path);
    struct stat old;
    if (descriptor >= 0)
        return write_to_descriptor(descriptor, path, bytes, error);
    if (stat(path, &old) != 0)
        return errno == ENOENT ? save_new(path, bytes, error) : cannot_write(path, error);
    if (S_ISDIR(old.st_mode))
        return error_named(error, "%s: is a folder, not a file", path);
    return S_ISREG(old.st_mode) ? save_over(path, old.st_mode & 0777, bytes, error)
                                : write_in_place(path, bytes, error);
}

bool output_replace(const char *path, const struct output_part *parts, size_t count, struct error *error)
{
    return replace(path, (struct bytes){ parts, count }, NULL) || cannot_write(path, error);
}
