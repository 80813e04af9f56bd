#include "cli/ranks.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/last_actions.h"

// Checks that all processes agree: first on what every command with ranks has. Only then, since they all run the same
// command, on what this command has.
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

// What a place (a process or thread with a device of its own) works on.
struct working {
    const struct ranks_request *request;
    const struct place *place;
};

static void say_wiring(void *self, const struct session *session)
{
    const struct working *working = self;
    struct text text = { 0 };
    session_say_wiring(session, &text);
    if (working->place->group && working->place->group->rank == 0 && text.length > 0)
        fprintf(stderr, "messages by %s\n", text.data);
    text_clear(&text);
}

static void say_failure(void *self, const struct session *session)
{
    const struct working *working = self;
    last_actions_say(session, working->place->group, working->request->folder);
}

static bool do_work(void *self, struct place *place, struct error *error)
{
    const struct ranks_request *request = self;
    struct working working = { request, place };
    const struct run_place run_place = {
        .device = place->device,
        .group = place->group,
        .is_stuck = &place->is_stuck,
        .opened = say_wiring,
        .failed = say_failure,
        .self = &working,
    };
    return request->work(request->self, &run_place, !place->group || place->group->rank == 0, error);
}

bool devices_explain(const char *names, struct error *error)
{
    char name[DEVICE_NAME_SIZE];
    const struct device_setting *settings;
    size_t count;
    if (!device_name_of(names, 0, name, error) || !device_environment(name, &settings, &count, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct device_setting *setting = &settings[i];
        if (setting->given)
            command_say("%s=%s, as it is given (%s would be set: %s)", setting->name, setting->given, setting->value,
                        setting->why);
        else
            command_say("%s=%s is set (%s)", setting->name, setting->value, setting->why);
    }
    if (count > 0)
        return true;
    struct device *device = device_open(name, error);
    if (device)
        command_say("device %s reads nothing from the environment, and is: %s", name, device_description(device));
    device_close(device);
    return device != NULL;
}

bool ranks_run(struct ranks *ranks, const struct ranks_request *request, struct error *error)
{
    struct places_request places = { .ranks = request->plan ? (uint32_t)plan_seat_count(request->plan) : 0,
                                     .named = "--device",
                                     .are_in_groups = request->plan
                                         && plan_seat_count(request->plan) > request->plan->ranks,
                                     .tell = command_tell };
    struct ranks_request settled = *request;
    struct launch launch;
    *ranks = (struct ranks){ 0 };
    if (!launch_from_environment(&launch, error))
        return false;
    places.device = settled.device = request->device ? request->device : places_usual_device(launch.ranks);
    if (request->verbose && launch.rank == 0 && !devices_explain(settled.device, error))
        return false;
    ranks->places = places_open(&places, &launch, error);
    return ranks->places && (launch.ranks <= 1 || agree(&settled, places_first(ranks->places)->group, error))
        && places_do(ranks->places, do_work, &settled, error);
}

int ranks_part(struct ranks *ranks, int code)
{
    if (places_close(ranks->places)) {
        fflush(NULL);
        _exit(code);
    }
    return code;
}
