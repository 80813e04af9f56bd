// Where the ranks of a run are: all by the threads of this process on one device; or one of
// them in each of several processes, which a launcher (torchrun, mpirun, srun) has started
// together; or each in a thread with a device of its own.
//
//     1 process, 1 device          1 place, without a group, for all ranks
//     a process for each rank      1 place, a member of a group
//     1 process, several devices   a place for each, all of a group
#ifndef RUNTIME_RANK_PLACES_H
#define RUNTIME_RANK_PLACES_H

#include "device/device_names.h"
#include "runtime/process_group.h"
#include "runtime/processes/launched.h"

struct place {
    const struct process_group *group;  // NULL: it has all ranks
    uint32_t number;                    // of the places of this process
    char device[DEVICE_NAME_SIZE];
    bool is_stuck;  // to be set where its device cannot be brought to an end
};

struct places_request {
    uint32_t ranks;      // of the run; 0: as many as there are processes or devices
    bool are_in_groups;  // ranks are groups of devices, of which each is counted
    // "cuda" of several processes on a machine is a GPU each. Several devices are a rank each: "cuda:0,cuda:1",
    // "cpu:queued,cpu:queued"; "cuda:all" are as many GPUs as there are ranks.
    const char *device;
    const char *named;   // what names it, for sentences: "--device"
    uint64_t deadline_ns;  // of meeting, and of what ranks tell each other; 0: five minutes
    void (*tell)(void *self, const char *sentence);  // whom this process waits for
    void *self;
};

// Where nobody names one: the processor, with queues where messages go to other processes.
const char *places_usual_device(uint32_t processes);

struct places;

// `launch` is of this process (launched.h). With several processes, returns when all have met.
struct places *places_open(const struct places_request *request, const struct launch *launch, struct error *error);
// True where a process or a thread is left behind that cannot be brought to an end: the process had better end at once.
bool places_close(struct places *places);

uint32_t places_count(const struct places *places);  // of this process
const struct place *places_first(const struct places *places);

// Each place of this process does it, at the same time: on the caller's thread where there is one. False with the first
// failure of all; the others of the group are told.
typedef bool place_work(void *self, struct place *place, struct error *error);
bool places_do(struct places *places, place_work *work, void *self, struct error *error);

#endif
