#include "cli/profile_links.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "common/progress.h"
#include "common/shown.h"
#include "device/communicator.h"
#include "profiler/cluster_measured.h"
#include "runtime/groups/measure_links.h"

// What rank 0 prints.
struct found {
    const struct links_given *given;
    struct cluster *cluster;
    struct text table;
};

static bool describe_own(const struct found *found, const struct device *device, const char *name,
                         struct station *station, struct error *error)
{
    if (gethostname(station->host, sizeof station->host - 1) != 0 || !station->host[0])
        strcpy(station->host, "machine");
    station->memory_bytes = found->given->shared->memory_bytes;
    return station->memory_bytes > 0 || device_room(device, &station->memory_bytes)
        || error_set(error, "device %s does not tell how much memory a plan may use; give it by --memory 16GiB",
                     name);
}

static bool keep(struct found *found, const struct links_measured *links, const char *device,
                 const struct communication *communication, struct error *error)
{
    struct text notes = { 0 };
    text_add(&notes, "Links measured by %s on %s, each rank with the next: latency by messages there and back, rate by"
             " many one after the other.", communication->library,
             device);
    char *sentence = text_take(&notes, error);
    found->cluster = sentence ? cluster_measured(links, sentence, error) : NULL;
    free(sentence);
    if (!found->cluster)
        return false;
    shown_add(&found->table, "%zu ranks on %s, by %s", links->ranks, device, communication->library);
    text_add(&found->table, "\n\n");
    links_print(links, &found->table);
    return true;
}

static bool measure_on(struct found *found, struct device *device, const struct run_place *place, bool speaks,
                       struct error *error)
{
    const struct process_group *group = place->group;
    struct measure_options options = *found->given->how;
    if (!speaks)
        options.progress = NULL;
    struct communication communication;
    struct station station = { .memory_bytes = 0 };
    if (!device_communication(device, &communication, error)
        || !describe_own(found, device, place->device, &station, error))
        return false;
    struct station *stations = calloc(group->ranks, sizeof *stations);
    struct link_cost *to_next = calloc(group->ranks, sizeof *to_next);
    const struct link_settings settings = { .options = &options };
    const struct links_measured links = { .stations = stations, .to_next = to_next, .ranks = group->ranks };
    const bool good = ((stations && to_next) || error_no_memory(error, "the links between ranks"))
        && group->all_gather(group->self, &station, sizeof station, stations, error)
        && measure_links(device, group, &settings, to_next, place->is_stuck, error)
        && (!speaks || keep(found, &links, found->given->device ? found->given->device : place->device, &communication,
                            error));
    free(stations);
    free(to_next);
    return good;
}

static bool measure(void *self, const struct run_place *place, bool speaks, struct error *error)
{
    if (!place->group)
        return error_set(error, "a link has two ends, and there is one rank: start several processes (by torchrun,"
                         " mpirun or srun), or name several devices (--device cuda:0,cuda:1)");
    struct device *device = device_open(place->device, error);
    const bool good = device && measure_on(self, device, place, speaks, error);
    if (!good)  // other ranks wait for this one
        place->group->abandon(place->group->self, error);
    if (!*place->is_stuck)
        device_close(device);
    return good;
}

// The document goes to its file; stdout gets the table, or with --json the document.
static int write_found(struct found *found)
{
    const struct shared_options *shared = found->given->shared;
    const char *output = shared->output ? shared->output : "";
    const bool is_document = shared->json || strcmp(output, "-") == 0;
    struct text document = { 0 };
    struct error error = { 0 };
    if (!found->cluster)
        return 0;  // another rank prints
    cluster_write(found->cluster, &document);
    const bool good = !*output || strcmp(output, "-") == 0 || text_save(&document, output, &error);
    const int code = !good ? command_fail(&error)
                   : is_document ? command_write(&document, NULL, 0) : command_print(&found->table, NULL, 0);
    text_clear(&document);
    return code;
}

int profile_links(const struct links_given *given)
{
    struct error error = { 0 };
    struct found found = { .given = given };
    const struct ranks_request request = { .command = "profile --links", .device = given->device,
                                           .steps = given->how->repeats,
                                           .verbose = given->verbose, .work = measure, .self = &found };
    struct ranks ranks = { 0 };
    const bool good = ranks_run(&ranks, &request, &error);
    progress_end(given->how->self);
    const int code = good ? write_found(&found) : command_fail(&error);
    cluster_free(found.cluster);
    text_clear(&found.table);
    return ranks_part(&ranks, code);
}
