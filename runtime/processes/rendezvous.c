#include "runtime/processes/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    return error_set(error, "%s: this is no meeting place that Weir has made, and is left as it is: let WEIR_RENDEZVOUS "
                     "name a file that does not exist yet, or remove it", path);
}

// False where there is none, or with an error where there is something else. Waits for nobody at the end of a pipe, and
// follows no link.
static bool load(const char *path, struct rendezvous *rendezvous, struct stat *status, struct error *error)
{
    char text[RENDEZVOUS_TEXT_SIZE + 1];
    const int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return errno != ENOENT && errno != ESTALE
            && (errno == ELOOP ? is_foreign(path, error) : cannot(path, "read", error));
    const bool is_file = fstat(file, status) == 0 && S_ISREG(status->st_mode);
    const ssize_t length = is_file ? read(file, text, sizeof text - 1) : 0;
    close(file);
    text[length > 0 ? length : 0] = '\0';
    char *end = strchr(text, '\n');
    if (!end || end[1] != '\0')
        return is_foreign(path, error);
    *end = '\0';
    return rendezvous_read(rendezvous, text) || is_foreign(path, error);
}

bool rendezvous_find(const char *path, struct rendezvous *rendezvous, bool *is_private, struct error *error)
{
    struct stat status;
    if (!load(path, rendezvous, &status, error))
        return false;
    *is_private = status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    return true;
}

bool rendezvous_clear(const char *path, struct error *error)
{
    struct rendezvous old;
    struct stat status;
    if (!load(path, &old, &status, error))
        return error->kind == ERROR_NONE;
    return unlink(path) == 0 || errno == ENOENT || cannot(path, "removed", error);
}

static bool fill(int file, const struct rendezvous *rendezvous, struct rendezvous_file *mark)
{
    char text[RENDEZVOUS_TEXT_SIZE];
    struct stat status;
    rendezvous_write(rendezvous, text);
    const bool good = fstat(file, &status) == 0 && dprintf(file, "%s\n", text) > 0;
    if (good)
        *mark = (struct rendezvous_file){ .device = status.st_dev, .inode = status.st_ino };
    return good;
}

// A file that has no name while it is written, so that who is killed leaves nothing behind; -1 where there is no such
// thing (NFS).
static int open_nameless(const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    return access("/proc/self/fd", X_OK) == 0 ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
}

// Unlike a rename, a link takes nobody's place.
static bool publish_nameless(int file, const char *path, const struct rendezvous *rendezvous,
                             struct rendezvous_file *mark)
{
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", file);
    const bool good = fill(file, rendezvous, mark) && linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
    return close(file) == 0 && good;
}

// Closed before it gets its name, so that other machines see all of it.
static bool publish_aside(const char *path, const struct rendezvous *rendezvous, struct rendezvous_file *mark)
{
    char aside[PATH_MAX];
    snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    const int file = mkostemp(aside, O_CLOEXEC);  // 0600
    if (file < 0)
        return false;
    const bool filled = fill(file, rendezvous, mark);
    const bool good = close(file) == 0 && filled && link(aside, path) == 0;
    const int trouble = errno;
    unlink(aside);
    errno = trouble;
    return good;
}

bool rendezvous_publish(const char *path, const struct rendezvous *rendezvous, struct rendezvous_file *mark,
                        struct error *error)
{
    const int nameless = open_nameless(path);
    return (nameless >= 0 ? publish_nameless(nameless, path, rendezvous, mark) : publish_aside(path, rendezvous, mark))
        || cannot(path, "written", error);
}

void rendezvous_withdraw(const char *path, const struct rendezvous_file *file)
{
    struct stat status;
    if (lstat(path, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode)
        unlink(path);
}
