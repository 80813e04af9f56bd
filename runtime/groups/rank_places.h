// The places of a run's ranks. All ranks may be threads of this process on one device. Or several processes have one
// rank each, started together by a launcher (torchrun, mpirun, srun). Or each rank is a thread with a device of its
// own.
//
//     1 process, 1 device          1 place, without a group, for all ranks
//     a process for each rank      1 place, a member of a group
//     1 process, several devices   a place for each, all of a group
#ifndef RUNTIME_GROUPS_RANK_PLACES_H
#define RUNTIME_GROUPS_RANK_PLACES_H

#include "device/device_names.h"
#include "runtime/groups/process_group.h"
#include "runtime/groups/processes/launched.h"

struct place {
    const struct process_group *group;  // NULL: it has all ranks
    uint32_t number;                    // index among the places of this process
    char device[DEVICE_NAME_SIZE];
    bool is_stuck;  // to be set if its device cannot be brought to an end
};

struct places_request {
    uint32_t ranks;      // of the run; 0: as many as there are processes or devices
    bool are_in_groups;  // ranks are tensor-parallel groups of devices; each device is counted
    // With several processes on a machine, "cuda" is a GPU for each. With several devices, each is a rank:
    // "cuda:0,cuda:1", "cpu:queued,cpu:queued"; "cuda:all" is as many GPUs as there are ranks.
    const char *device;
    const char *named;   // the option that names it, for errors: "--device"
    uint64_t deadline_ns;  // for meeting, and for what ranks tell each other; 0: five minutes
    void (*tell)(void *self, const char *sentence);  // is told for which ranks this process waits
    void *self;
};

// The device if none is named: the processor, with queues if messages go to other processes.
const char *places_usual_device(uint32_t processes);

struct places;

// `launch` describes this process (launched.h). With several processes, returns when all have met.
struct places *places_open(const struct places_request *request, const struct launch *launch, struct error *error);
// True if a process or a thread is left that cannot be brought to an end: the process should then end at once.
bool places_close(struct places *places);

uint32_t places_count(const struct places *places);  // of this process
const struct place *places_first(const struct places *places);

// Every place of this process (one of its ranks) does the work, at the same time; on the caller's thread if there is
// only one. If several fail, `error` is the one that the group was told first. The other ranks of the group are told
// of it.
typedef bool place_work(void *self, struct place *place, struct error *error);
bool places_do(struct places *places, place_work *work, void *self, struct error *error);

#endif
