// Preloaded: a disk on which a run keeps checkpoints, in a folder `kept`, and that fails. Each call that changes the folder
// has a number.
//
//     WEIR_DISK_BYTES=N                       what is written behind the first N bytes finds no space
//     WEIR_DISK_CALL=N WEIR_DISK_TROUBLE=5    call N fails with that error number, EIO, and no other one does
//     WEIR_DISK_CALL=N                        the process is killed before call N
//     WEIR_DISK_SAYS=FILE                     where it says how many calls there were
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_llong written, calls;

static long long number(const char *name)
{
    const char *value = getenv(name);
    return value ? atoll(value) : -1;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("WEIR_DISK_SAYS");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file >= 0)
        dprintf(file, "%lld\n", (long long)calls);
}

static int is_kept(const char *path)
{
    return strstr(path, "kept") != NULL;
}

static int is_kept_file(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return is_kept(path);
}

// Counts a call; whether it is to fail.
static int call(void)
{
    const long long trouble = number("WEIR_DISK_TROUBLE");
    if (atomic_fetch_add(&calls, 1) != number("WEIR_DISK_CALL"))
        return 0;
    if (trouble < 0)
        raise(SIGKILL);
    errno = (int)trouble;
    return 1;
}

#define REAL(name, ...)                            \
    __typeof__(name) *real;                        \
    *(void **)&real = dlsym(RTLD_NEXT, #name);     \
    return real(__VA_ARGS__)

ssize_t write(int file, const void *bytes, size_t length)
{
    const long long most = number("WEIR_DISK_BYTES");
    if (is_kept_file(file)) {
        if (call())
            return -1;
        const long long left = most < 0 ? (long long)length : most - atomic_fetch_add(&written, (long long)length);
        if (left <= 0) {
            errno = ENOSPC;
            return -1;
        }
        length = (long long)length < left ? length : (size_t)left;
    }
    REAL(write, file, bytes, length);
}

int fsync(int file)
{
    if (is_kept_file(file) && call())
        return -1;
    REAL(fsync, file);
}

int openat(int folder, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (mode && is_kept_file(folder) && call())
        return -1;
    REAL(openat, folder, name, flags, mode);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (is_kept_file(to_folder) && call())
        return -1;
    REAL(linkat, from_folder, from, to_folder, to, flags);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (is_kept_file(to_folder) && call())
        return -1;
    REAL(renameat, from_folder, from, to_folder, to);
}

int rename(const char *from, const char *to)
{
    if (is_kept(to) && call())
        return -1;
    REAL(rename, from, to);
}

int unlinkat(int folder, const char *name, int flags)
{
    if (is_kept_file(folder) && call())
        return -1;
    REAL(unlinkat, folder, name, flags);
}

int mkdir(const char *path, mode_t mode)
{
    if (is_kept(path) && call())
        return -1;
    REAL(mkdir, path, mode);
}

int rmdir(const char *path)
{
    if (is_kept(path) && call())
        return -1;
    REAL(rmdir, path);
}
