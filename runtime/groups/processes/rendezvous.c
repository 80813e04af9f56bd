#include "runtime/groups/processes/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/utf8.h"

// --- the line ----------------------------------------------------------------------------

void rendezvous_write(const struct rendezvous *rendezvous, char text[RENDEZVOUS_TEXT_SIZE])
{
    char digits[SECRET_DIGITS_SIZE] = "-";
    if (rendezvous->has_secret)
        secret_write(&rendezvous->secret, digits);
    snprintf(text, RENDEZVOUS_TEXT_SIZE, "weir-rendezvous 1 %s %u %s %s", rendezvous->host, rendezvous->port,
             rendezvous->is_spread ? "spread" : "local", digits);
}

bool rendezvous_read(struct rendezvous *rendezvous, const char *text)
{
    char port[6], reach[7], digits[SECRET_DIGITS_SIZE];
    int end = 0;
    *rendezvous = (struct rendezvous){ 0 };
    if (sscanf(text, "weir-rendezvous 1 %63s %5[0-9] %6s %64s%n", rendezvous->host, port, reach, digits, &end) != 4
        || text[end] != '\0')
        return false;
    const unsigned long number = strtoul(port, NULL, 10);
    rendezvous->port = (uint16_t)number;
    rendezvous->is_spread = strcmp(reach, "spread") == 0;
    rendezvous->has_secret = strcmp(digits, "-") != 0;
    utf8_make_printable(rendezvous->host, sizeof rendezvous->host);
    return number > 0 && number <= UINT16_MAX && (rendezvous->is_spread || strcmp(reach, "local") == 0)
        && (!rendezvous->has_secret || secret_read(&rendezvous->secret, digits));
}

// --- the file ------------------------------------------------------------------------------

static bool cannot(const char *path, const char *what, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "%s: the ranks' meeting place cannot be %s: %s", path, what,
                          strerror(errno));
}

static bool is_foreign(const char *path, struct error *error)
{
    return error_set(error,
                     "%s: this is no meeting place that Weir has made, and is left as it is: let WEIR_RENDEZVOUS "
                     "name a file that does not exist yet, or remove it",
                     path);
}

// Opens it; -1 if there is none, or with an error if it is another kind of file. Never blocks on a pipe, and follows
// no link.
static int open_file(const char *path, struct rendezvous *rendezvous, struct stat *status, struct error *error)
{
    char text[RENDEZVOUS_TEXT_SIZE + 1];
    const int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0 && (errno == ENOENT || errno == ESTALE))
        return -1;
    if (file < 0) {
        (void)(errno == ELOOP ? is_foreign(path, error) : cannot(path, "read", error));
        return -1;
    }
    const bool is_file = fstat(file, status) == 0 && S_ISREG(status->st_mode);
    const ssize_t length = is_file ? read(file, text, sizeof text - 1) : 0;
    text[length > 0 ? length : 0] = '\0';
    char *end = strchr(text, '\n');
    const bool is_line = end && end[1] == '\0';
    if (is_line)
        *end = '\0';
    if (is_line && rendezvous_read(rendezvous, text))
        return file;
    close(file);
    is_foreign(path, error);
    return -1;
}

bool rendezvous_find(const char *path, struct rendezvous *rendezvous, bool *is_private, struct error *error)
{
    struct stat status;
    const int file = open_file(path, rendezvous, &status, error);
    if (file < 0)
        return false;
    close(file);
    *is_private = status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    return true;
}

// Whether the name still refers to that file.
static bool is_named(const char *path, const struct stat *file)
{
    struct stat status;
    return lstat(path, &status) == 0 && status.st_dev == file->st_dev && status.st_ino == file->st_ino;
}

bool rendezvous_clear(const char *path, struct error *error)
{
    struct rendezvous old;
    struct stat status;
    const int file = open_file(path, &old, &status, error);
    if (file < 0)
        return error->kind == ERROR_NONE;
    bool good = flock(file, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK
             || error_set(error,
                          "%s: another run meets there now, and its rank 0 is on %s: give this one a place of its "
                          "own, by WEIR_RENDEZVOUS or MASTER_PORT",
                          path, old.host);
    if (good && is_named(path, &status))
        good = unlink(path) == 0 || errno == ENOENT || cannot(path, "removed", error);
    close(file);
    return good;
}

// Locked before it has a name. Not every file system has locks; without one a run can meet all the same.
static bool fill(int file, const struct rendezvous *rendezvous, struct rendezvous_file *mark)
{
    char text[RENDEZVOUS_TEXT_SIZE];
    struct stat status;
    rendezvous_write(rendezvous, text);
    const bool good = fstat(file, &status) == 0 && dprintf(file, "%s\n", text) > 0 && fsync(file) == 0;
    if (good)
        *mark = (struct rendezvous_file){ .device = status.st_dev, .inode = status.st_ino, .lock = file };
    if (good)
        flock(file, LOCK_EX | LOCK_NB);
    return good;
}

// A file that has no name while it is written, so that a process that is killed leaves nothing behind; -1 if the file
// system has no such files (NFS).
static int open_nameless(const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    return access("/proc/self/fd", X_OK) == 0 ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
}

// Unlike a rename, a link replaces no other file.
static bool publish_nameless(int file, const char *path, const struct rendezvous *rendezvous,
                             struct rendezvous_file *mark)
{
    char fd_path[64];
    snprintf(fd_path, sizeof fd_path, "/proc/self/fd/%d", file);
    return fill(file, rendezvous, mark) && linkat(AT_FDCWD, fd_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

// Synced before it gets its name, so that other machines see all of it.
static bool publish_aside(const char *path, const struct rendezvous *rendezvous, struct rendezvous_file *mark,
                          int *file)
{
    char aside[PATH_MAX];
    snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    *file = mkostemp(aside, O_CLOEXEC);  // 0600
    if (*file < 0)
        return false;
    const bool good = fill(*file, rendezvous, mark) && link(aside, path) == 0;
    const int trouble = errno;
    unlink(aside);
    errno = trouble;
    return good;
}

bool rendezvous_publish(const char *path, const struct rendezvous *rendezvous, struct rendezvous_file *mark,
                        struct error *error)
{
    int file = open_nameless(path);
    const bool good = file >= 0 ? publish_nameless(file, path, rendezvous, mark)
                                : publish_aside(path, rendezvous, mark, &file);
    if (good)
        return true;
    cannot(path, "written", error);
    if (file >= 0)
        close(file);
    return false;
}

void rendezvous_withdraw(const char *path, const struct rendezvous_file *file)
{
    const struct stat identity = { .st_dev = file->device, .st_ino = file->inode };
    if (is_named(path, &identity))
        unlink(path);
    close(file->lock);
}
