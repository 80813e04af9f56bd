// Which devices a run is given: one for all ranks, or several, a rank each.
//
//     cuda:1,bf16                  one: what follows a comma belongs to it,
//     cuda:0,bf16,cuda:1,bf16      two: unless it is the name of a maker
//     cuda:all,bf16                as many as there are ranks
#ifndef DEVICE_DEVICE_NAMES_H
#define DEVICE_DEVICE_NAMES_H

#include "device/device.h"

enum { DEVICE_NAME_SIZE = 64 };

// How many are named, where a plan has so many ranks.
uint32_t device_name_count(const char *names, uint32_t ranks);

// The n-th of several.
bool device_name_of(const char *names, uint32_t n, char name[DEVICE_NAME_SIZE], struct error *error);

// Whether a word behind the colon of one of them is that: "fp16" of "cpu:queued,fp16".
bool device_names_have(const char *names, const char *word);

// The processor's, of a precision: "cpu", "cpu:bf16", "cpu:fp16".
const char *device_name_in(enum precision precision);

// The one that is named, of a process: where several are on a machine, "cuda" and "cuda:bf16" are, of the third of them,
// "cuda:2" and "cuda:2,bf16".
bool device_name_on_machine(const char *names, bool are_several, uint32_t local_rank, char name[DEVICE_NAME_SIZE],
                            struct error *error);

// The same of a process whose peers are on other machines: "cpu:queued" is "cpu:queued,mpi". *is_mpi: messages are sent
// by MPI.
bool device_name_between_machines(char name[DEVICE_NAME_SIZE], bool are_several, bool *is_mpi, struct error *error);

#endif
