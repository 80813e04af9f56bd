// Which devices a run is given: one for all ranks, or several, one for each rank.
//
//     cuda:1,bf16                  one: what follows a comma belongs to it,
//     cuda:0,bf16,cuda:1,bf16      two: unless it is the name of a maker
//     cuda:all,bf16                as many as there are ranks
#ifndef DEVICE_DEVICE_NAMES_H
#define DEVICE_DEVICE_NAMES_H

#include "device/device.h"

enum { DEVICE_NAME_SIZE = 64 };

// The number of devices named, for a plan of `ranks` ranks.
uint32_t device_name_count(const char *names, uint32_t ranks);

// The n-th of several, from 0. False if the name is too long.
bool device_name_of(const char *names, uint32_t n, char name[DEVICE_NAME_SIZE], struct error *error);

// Whether `word` is one of the words after the colon of one of them, such as "fp16" in "cpu:queued,fp16".
bool device_names_have(const char *names, const char *word);

// The processor with a given precision: "cpu", "cpu:bf16" or "cpu:fp16".
const char *device_name_in(enum precision precision);

// The named device, for one process of several. If several processes are on a machine (`are_several`), "cuda" and
// "cuda:bf16" become "cuda:2" and "cuda:2,bf16" for the third of them. False if the name is too long.
bool device_name_on_machine(const char *names, bool are_several, uint32_t local_rank, char name[DEVICE_NAME_SIZE],
                            struct error *error);

// The same for a process whose peers are on other machines: "cpu:queued" becomes "cpu:queued,mpi". *is_mpi: whether
// messages are sent by MPI.
bool device_name_between_machines(char name[DEVICE_NAME_SIZE], bool are_several, bool *is_mpi, struct error *error);

#endif
