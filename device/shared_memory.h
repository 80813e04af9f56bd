// Memory that several processes of a machine share, without a name in the file system.
//
//     process 71                                       process 72
//     shared_memory_create()  -> its file 5, name      name comes by other means
//                                                      shared_memory_find()  -> opens /proc/71/fd/5
//     shared_memory_map()                              shared_memory_map()
//
// It is a memfd (memfd_create). The kernel frees it when the last process that has it open or mapped ends. Nothing is
// left behind, whichever process is killed at whatever time. The size of /dev/shm, which is small in a container,
// does not matter.
#ifndef DEVICE_SHARED_MEMORY_H
#define DEVICE_SHARED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

// Valid as long as the process that made it keeps the file open.
struct shared_memory_name {
    uint32_t process;
    int32_t file;              // a file descriptor of that process
    unsigned char secret[16];  // what the memory begins with, so that nothing else is mistaken for it
};

// Both return an open file descriptor, which the caller closes; -1 on failure.
int shared_memory_create(struct shared_memory_name *name, struct error *error);
int shared_memory_find(const struct shared_memory_name *name, struct error *error);

// Maps all of it, for reading and writing, until munmap(). Its bytes are zeros except for the secret at the front.
// Every process maps the same number of bytes. NULL on failure.
void *shared_memory_map(int file, uint64_t bytes, struct error *error);

// Reserves memory for [from, from + bytes). Without this, memory is taken only as bytes are touched, and if there is
// none left by then the kernel kills the process.
bool shared_memory_reserve(int file, uint64_t from, uint64_t bytes, struct error *error);

#endif
