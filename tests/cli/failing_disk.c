// Preloaded: of what is written to checkpoints, the bytes behind the first WEIR_DISK_BYTES find no space; or, with
// WEIR_DISK_SYNC=N, the N-th sync fails.
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_llong written, synced;

static long long number(const char *name)
{
    const char *value = getenv(name);
    return value ? atoll(value) : -1;
}

static int is_of_checkpoint(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return strstr(path, "/step-") != NULL;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    ssize_t (*real)(int, const void *, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "write");
    const long long most = number("WEIR_DISK_BYTES");
    if (most < 0 || !is_of_checkpoint(file))
        return real(file, bytes, length);
    const long long left = most - atomic_fetch_add(&written, (long long)length);
    if (left <= 0) {
        errno = ENOSPC;
        return -1;
    }
    return real(file, bytes, (long long)length < left ? length : (size_t)left);
}

int fsync(int file)
{
    int (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (is_of_checkpoint(file) && atomic_fetch_add(&synced, 1) + 1 == number("WEIR_DISK_SYNC")) {
        errno = EIO;
        return -1;
    }
    return real(file);
}
