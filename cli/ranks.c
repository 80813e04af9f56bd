#include "cli/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/device_names.h"
#include "cli/last_actions.h"

// A rank that is in a process group.
struct member {
    const struct ranks_request *request;
    struct process_group group;
    bool is_in_group, is_stuck;
    char device[DEVICE_NAME_SIZE];
    pthread_t thread;
    bool has_thread;
    struct error error;
};

// On what every command has that runs ranks, and then, all being the same command, on what is its own.
static bool agree(const struct ranks_request *request, const struct process_group *group, struct error *error)
{
    enum { SHARED = 5 };
    struct agreed shared[SHARED] = {
        { .what = "command" }, { .what = "plan" }, { .what = "--device" }, { .what = "--seed" }, { .what = "--steps" },
    };
    snprintf(shared[0].value, AGREED_SIZE, "weir %s", request->command);
    if (request->plan && !plan_hash(request->plan, shared[1].value, error))
        return false;
    snprintf(shared[2].value, AGREED_SIZE, "%s", request->device);
    snprintf(shared[3].value, AGREED_SIZE, "%llu", (unsigned long long)request->seed);
    snprintf(shared[4].value, AGREED_SIZE, "%llu", (unsigned long long)request->steps);
    return ranks_agree(group, shared, SHARED, error)
        && (request->agreed_count == 0 || ranks_agree(group, request->agreed, request->agreed_count, error));
}

static void say_wiring(void *self, const struct session *session)
{
    const struct member *member = self;
    struct text text = { 0 };
    session_say_wiring(session, &text);
    if (member->is_in_group && member->group.rank == 0 && text.length > 0)
        fprintf(stderr, "messages by %s\n", text.data);
    text_clear(&text);
}

static void say_failure(void *self, const struct session *session)
{
    const struct member *member = self;
    last_actions_say(session, member->is_in_group ? &member->group : NULL, member->request->folder);
}

static bool do_work(struct member *member, struct error *error)
{
    const struct ranks_request *request = member->request;
    const struct run_place place = {
        .device = member->device,
        .group = member->is_in_group ? &member->group : NULL,
        .is_stuck = &member->is_stuck,
        .opened = say_wiring,
        .failed = say_failure,
        .self = member,
    };
    return request->work(request->self, &place, !member->is_in_group || member->group.rank == 0, error);
}

// --- a device for each -----------------------------------------------------------------

static void *do_work_of_thread(void *argument)
{
    struct member *member = argument;
    if (!do_work(member, &member->error))
        member->group.abandon(member->group.self, &member->error);  // who waits for this one waits no longer
    return NULL;
}

// False with the first failure of all.
static bool run_threads(struct ranks *ranks, struct member *members, uint32_t count, struct error *error)
{
    struct error none = { 0 };
    for (uint32_t rank = 0; rank < count; rank++) {
        struct member *member = &members[rank];
        member->has_thread = pthread_create(&member->thread, NULL, do_work_of_thread, member) == 0;
        if (member->has_thread)
            continue;
        error_set_kind(&none, ERROR_MACHINE, "rank %u: no thread could be started", rank);
        member->group.abandon(member->group.self, &none);
        break;
    }
    for (uint32_t rank = 0; rank < count; rank++) {
        if (members[rank].has_thread)
            pthread_join(members[rank].thread, NULL);
        ranks->is_stuck |= members[rank].is_stuck;
    }
    return members[0].group.is_well(members[0].group.self, error);
}

static bool run_on_devices(struct ranks *ranks, const struct ranks_request *request, uint32_t count,
                           struct error *error)
{
    struct member *members = calloc(count, sizeof *members);
    bool good = members || error_no_memory(error, "the ranks of a process");
    ranks->group = good ? thread_group_create(count, 0, error) : NULL;
    good = good && ranks->group;
    for (uint32_t rank = 0; good && rank < count; rank++) {
        members[rank].request = request;
        members[rank].is_in_group = true;
        members[rank].group = thread_group_member(ranks->group, rank);
        good = device_name_of(request->device, rank, members[rank].device, error);
    }
    good = good && run_threads(ranks, members, count, error);
    free(members);
    return good;
}

// --- the whole --------------------------------------------------------------------------

static uint32_t ranks_wanted(const struct ranks_request *request, const struct launch *launch)
{
    if (request->plan)
        return request->plan->ranks;
    return launch->ranks > 1 ? launch->ranks : device_name_count(request->device, 1);
}

static void say_who_is_waited_for(void *self, const char *sentence)
{
    (void)self;
    command_say("%s", sentence);
}

static bool meet(struct ranks *ranks, struct member *member, const struct launch *launch, struct error *error)
{
    const uint32_t wanted = ranks_wanted(member->request, launch);
    const struct control_settings settings = { .tell = say_who_is_waited_for };
    if (launch->ranks != wanted)
        return error_set(error, "%s started %u processes, and the plan has %u ranks: a process each, or a single one "
                         "for all, is needed", launch->by, launch->ranks, wanted);
    ranks->control = control_open(launch, &settings, error);
    if (!ranks->control)
        return false;
    member->group = control_group(ranks->control);
    member->is_in_group = true;
    return agree(member->request, &member->group, error);
}

static bool run_process(struct ranks *ranks, const struct ranks_request *request, const struct launch *launch,
                        struct error *error)
{
    struct member member = { .request = request };
    if (!device_name_on_machine(request->device, launch->ranks > 1, launch->local_rank, member.device, error)
        || (launch->ranks > 1 && !meet(ranks, &member, launch, error)))
        return false;
    const bool good = do_work(&member, error);
    ranks->is_stuck = member.is_stuck;
    return good;
}

bool ranks_run(struct ranks *ranks, const struct ranks_request *request, struct error *error)
{
    struct launch launch;
    *ranks = (struct ranks){ 0 };
    if (!launch_from_environment(&launch, error)
        || (request->verbose && launch.rank == 0 && !device_names_explain(request->device, error)))
        return false;
    const uint32_t wanted = ranks_wanted(request, &launch), devices = device_name_count(request->device, wanted);
    if (devices == 1)
        return run_process(ranks, request, &launch, error);
    if (launch.ranks > 1)
        return error_set(error, "%s started %u processes, and --device names %u devices: either a process with one "
                         "device for each rank, or one process with all devices", launch.by, launch.ranks, devices);
    if (devices != wanted)
        return error_set(error, "--device names %u devices, and the plan has %u ranks: one for each, or a single one for "
                         "all, is needed", devices, wanted);
    return run_on_devices(ranks, request, devices, error);
}

int ranks_part(struct ranks *ranks, int code)
{
    control_close(ranks->control);
    if (ranks->is_stuck) {
        fflush(NULL);
        _exit(code);
    }
    thread_group_free(ranks->group);
    return code;
}
