// Memory that several processes of a machine share, and that has a name in no folder.
//
//     process 71                                       process 72
//     shared_memory_create()  -> its file 5, name      name comes by other means
//                                                      shared_memory_find()  -> opens /proc/71/fd/5
//     shared_memory_map()                              shared_memory_map()
//
// It is the kernel's (memfd_create), which frees it with the last process that has it open or mapped: nothing is left
// behind, whoever is killed when, and how much room /dev/shm has, which in a container is little, does not matter.
#ifndef DEVICE_SHARED_MEMORY_H
#define DEVICE_SHARED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

// Good for as long as who made it keeps the file open.
struct shared_memory_name {
    uint32_t process;
    int32_t file;              // a number of that process
    unsigned char secret[16];  // what the memory begins with, so that nothing else is taken for it
};

// Both return an open file, which is the caller's to close; -1 on failure.
int shared_memory_create(struct shared_memory_name *name, struct error *error);
int shared_memory_find(const struct shared_memory_name *name, struct error *error);

// All of it, for reading and writing, until munmap(). Its bytes are zeros but for the secret in front. Every process
// maps as many. NULL on failure.
void *shared_memory_map(int file, uint64_t bytes, struct error *error);

// Takes memory for [from, from + bytes). Where that is done only as bytes are touched, and no more is to be had, the
// kernel kills the process.
bool shared_memory_reserve(int file, uint64_t from, uint64_t bytes, struct error *error);

#endif
