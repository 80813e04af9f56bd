#include "runtime/groups/rank_places.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/plugin.h"
#include "runtime/groups/processes/control.h"
#include "runtime/groups/thread_group.h"

enum { USUAL_SECONDS = 300 };

struct member {
    struct place place;
    struct process_group group;
    place_work *work;
    void *self;
    pthread_t thread;
    bool has_thread;
    struct error error;
};

struct places {
    struct control *control;     // NULL: one process alone
    struct thread_group *group;  // NULL: one device
    uint32_t count;
    struct member members[];
};

const char *places_usual_device(uint32_t processes)
{
    return processes > 1 ? "cpu:queued" : "cpu";
}

static uint32_t ranks_wanted(const struct places_request *request, const struct launch *launch)
{
    if (request->ranks > 0)
        return request->ranks;
    return launch->ranks > 1 ? launch->ranks : device_name_count(request->device, 1);
}

static const char *what_plan_has(const struct places_request *request)
{
    return request->are_in_groups ? "devices in the groups of its ranks" : "ranks";
}

// What tells a machine from others. Containers on one machine may share a boot id, and different machines may share a
// name.
struct machine {
    char host[64], boot[40];
    char device[DEVICE_NAME_SIZE];  // as the rank there has named it
};

static struct machine this_machine(const char *device)
{
    struct machine machine = { 0 };
    snprintf(machine.device, sizeof machine.device, "%s", device);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    gethostname(machine.host, sizeof machine.host - 1);
    if (!file)
        return machine;
    machine.boot[fread(machine.boot, 1, sizeof machine.boot - 1, file)] = '\0';
    fclose(file);
    return machine;
}

// *are_alike: whether the devices are, which has not been compared before.
static bool are_on_several(const struct place *place, bool *are, bool *are_alike, struct error *error)
{
    const struct process_group *group = place->group;
    const struct machine machine = this_machine(place->device);
    struct machine *all = calloc(group->ranks, sizeof *all);
    const bool good = (all || error_no_memory(error, "the machines of a run"))
                   && group->all_gather(group->self, &machine, sizeof machine, all, error);
    *are = false;
    *are_alike = true;
    for (uint32_t rank = 1; good && rank < group->ranks; rank++) {
        *are |= memcmp(&all[rank], &all[0], offsetof(struct machine, device)) != 0;
        *are_alike &= strcmp(all[rank].device, all[0].device) == 0;
    }
    free(all);
    return good;
}

// Starts MPI if messages use it, even if ranks have met by other means.
static bool start_mpi(const struct launch *launch, uint64_t deadline_ns, struct error *error)
{
    const struct plugin *plugin = plugin_open_mpi(error);
    return plugin && plugin->processes->tell(launch->rank, launch->ranks, NULL, 0,
                                             add_clamped(clock_now_ns(), deadline_ns), error);
}

static bool find_way(struct place *place, const struct places_request *request, const struct launch *launch,
                     struct error *error)
{
    bool are_several, are_alike, is_mpi;
    const uint64_t deadline_ns = request->deadline_ns ? request->deadline_ns : USUAL_SECONDS * (uint64_t)1000000000;
    const bool good = are_on_several(place, &are_several, &are_alike, error)
                   && device_name_between_machines(place->device, are_several, &is_mpi, error)
                   && (!is_mpi || !are_alike || start_mpi(launch, deadline_ns, error));
    if (!good)
        place->group->abandon(place->group->self, error);
    return good;
}

static bool meet(struct places *places, const struct places_request *request, const struct launch *launch,
                 struct error *error)
{
    const uint32_t wanted = ranks_wanted(request, launch);
    const struct control_settings settings = { .deadline_ns = request->deadline_ns, .tell = request->tell,
                                               .self = request->self };
    if (launch->ranks != wanted)
        return error_set(error, "%s started %u processes, and the plan has %u %s: a process each, or a single one "
                         "for all, is needed", launch->by, launch->ranks, wanted, what_plan_has(request));
    places->control = control_open(launch, &settings, error);
    if (!places->control)
        return false;
    struct member *member = &places->members[0];
    member->group = control_group(places->control);
    member->place.group = &member->group;
    return find_way(&member->place, request, launch, error);
}

static bool open_devices(struct places *places, const struct places_request *request, struct error *error)
{
    places->group = thread_group_create(places->count, request->deadline_ns, error);
    bool good = places->group != NULL;
    for (uint32_t rank = 0; good && rank < places->count; rank++) {
        struct member *member = &places->members[rank];
        member->group = thread_group_member(places->group, rank);
        member->place.group = &member->group;
        member->place.number = rank;
        good = device_name_of(request->device, rank, member->place.device, error);
    }
    return good;
}

static bool are_as_many(const struct places_request *request, const struct launch *launch, uint32_t devices,
                        struct error *error)
{
    const uint32_t wanted = ranks_wanted(request, launch);
    if (launch->ranks > 1)
        return error_set(error, "%s started %u processes, and %s names %u devices: either a process with one "
                         "device for each rank, or one process with all devices", launch->by, launch->ranks,
                         request->named, devices);
    return devices == wanted
        || error_set(error, "%s names %u devices, and the plan has %u %s: one for each, or a single one for "
                     "all, is needed", request->named, devices, wanted, what_plan_has(request));
}

static bool open_all(struct places *places, const struct places_request *request, const struct launch *launch,
                     struct error *error)
{
    if (places->count > 1)
        return open_devices(places, request, error);
    return device_name_on_machine(request->device, launch->ranks > 1, launch->local_rank,
                                  places->members[0].place.device, error)
        && (launch->ranks <= 1 || meet(places, request, launch, error));
}

struct places *places_open(const struct places_request *request, const struct launch *launch, struct error *error)
{
    const uint32_t devices = device_name_count(request->device, ranks_wanted(request, launch));
    if (devices > 1 && !are_as_many(request, launch, devices, error))
        return NULL;
    struct places *places = calloc(1, sizeof *places + devices * sizeof places->members[0]);
    if (!places)
        return error_null(error_no_memory(error, "the ranks of a process"));
    places->count = devices;
    if (open_all(places, request, launch, error))
        return places;
    places_close(places);
    return NULL;
}

bool places_close(struct places *places)
{
    bool is_stuck = false;
    if (!places)
        return false;
    for (uint32_t i = 0; i < places->count; i++)
        is_stuck |= places->members[i].place.is_stuck;
    control_close(places->control);
    if (!is_stuck)
        thread_group_free(places->group);
    free(places);
    return is_stuck;
}

uint32_t places_count(const struct places *places)
{
    return places->count;
}

const struct place *places_first(const struct places *places)
{
    return &places->members[0].place;
}

// --- a device for each -----------------------------------------------------------------

static void *work_of_thread(void *argument)
{
    struct member *member = argument;
    if (!member->work(member->self, &member->place, &member->error))
        member->group.abandon(member->group.self, &member->error);  // ranks that wait for this one stop waiting
    return NULL;
}

// False with the first failure of all ranks.
static bool run_threads(struct places *places, struct error *error)
{
    struct error none = { 0 };
    for (uint32_t rank = 0; rank < places->count; rank++) {
        struct member *member = &places->members[rank];
        member->has_thread = pthread_create(&member->thread, NULL, work_of_thread, member) == 0;
        if (member->has_thread)
            continue;
        error_set_kind(&none, ERROR_MACHINE, "rank %u: no thread could be started", rank);
        member->group.abandon(member->group.self, &none);
        break;
    }
    for (uint32_t rank = 0; rank < places->count; rank++)
        if (places->members[rank].has_thread)
            pthread_join(places->members[rank].thread, NULL);
    return places->members[0].group.is_well(places->members[0].group.self, error);
}

bool places_do(struct places *places, place_work *work, void *self, struct error *error)
{
    for (uint32_t rank = 0; rank < places->count; rank++) {
        places->members[rank].work = work;
        places->members[rank].self = self;
        places->members[rank].has_thread = false;
    }
    if (places->count > 1)
        return run_threads(places, error);
    struct member *only = &places->members[0];
    if (work(self, &only->place, error))
        return true;
    if (only->place.group)
        only->group.abandon(only->group.self, error);
    return false;
}
