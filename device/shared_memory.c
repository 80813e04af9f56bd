#include "device/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static bool has_none(struct error *error, int why)
{
    return error_set_kind(error, ERROR_MACHINE, "no memory for processes to share: %s", strerror(why));
}

int shared_memory_create(struct shared_memory_name *name, struct error *error)
{
    *name = (struct shared_memory_name){ .process = (uint32_t)getpid(), .file = memfd_create("weir", MFD_CLOEXEC) };
    if (name->file >= 0 && getrandom(name->secret, sizeof name->secret, 0) == (ssize_t)sizeof name->secret
        && pwrite(name->file, name->secret, sizeof name->secret, 0) == (ssize_t)sizeof name->secret)
        return name->file;
    has_none(error, errno);
    if (name->file >= 0)
        close(name->file);
    return -1;
}

int shared_memory_find(const struct shared_memory_name *name, struct error *error)
{
    unsigned char secret[sizeof name->secret];
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%d", name->process, name->file);
    errno = 0;
    const int file = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file >= 0 && pread(file, secret, sizeof secret, 0) == (ssize_t)sizeof secret
        && memcmp(secret, name->secret, sizeof secret) == 0)
        return file;
    error_set_kind(error, ERROR_MACHINE, "%s is no memory to share (%s): who made it has ended, or is on another "
                   "machine or in another container", path, errno ? strerror(errno) : "it is something else");
    if (file >= 0)
        close(file);
    return -1;
}

void *shared_memory_map(int file, uint64_t bytes, struct error *error)
{
    void *place = MAP_FAILED;
    if (ftruncate(file, (off_t)bytes) == 0)
        place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (place != MAP_FAILED)
        return place;
    has_none(error, errno);
    return NULL;
}

bool shared_memory_reserve(int file, uint64_t from, uint64_t bytes, struct error *error)
{
    int trouble;
    do
        trouble = posix_fallocate(file, (off_t)from, (off_t)bytes);
    while (trouble == EINTR);
    return trouble == 0 || has_none(error, trouble);
}
