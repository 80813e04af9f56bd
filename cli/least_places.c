#include "cli/least_places.h"

#include <string.h>

#include "partitioner/experts/expert_report.h"
#include "partitioner/tables/table_plan.h"
#include "partitioner/tables/table_profile.h"
#include "profiler/table_reads.h"

const char *const *least_optimizers(void)
{
    return table_optimizer_names;
}

static bool is_possible(const struct least_request *request, struct error *error)
{
    const struct profile_reads *reads = request->profile->reads;
    if (request->cluster->device_count != request->members)
        return error_set(error, "--cluster has %zu devices, and --tables least places tables on the %u of --rows: name"
                         " a cluster of %u", request->cluster->device_count, request->members, request->members);
    for (size_t t = 1; reads && t < reads->table_count; t++)
        if (strcmp(reads->tables[t].layer, reads->tables[0].layer) != 0)
            return error_set(error, "--tables least: layers %.60s and %.60s both have tables, and the words of a"
                             " variant are for one layer: weir place --layer says the words of one",
                             reads->tables[0].layer, reads->tables[t].layer);
    return true;
}

static char *words_of(const struct table_plan *plan, struct error *error)
{
    const enum table_optimizer optimizer = plan->problem.optimizer;
    struct text words = { 0 };
    if (table_plan_room(plan) > 0 && optimizer != TABLE_SGD && optimizer != TABLE_ADAGRAD) {
        error_set(error, "--tables least: some tables would be in the host's memory, which sgd and adagrad update, and"
                  " --optimizer is %s: take one of these, or leave the host out of --cluster",
                  table_optimizer_names[optimizer]);
        return NULL;
    }
    table_plan_words(plan, &words);
    return text_take(&words, error);
}

char *least_places(const struct least_request *request, struct error *error)
{
    const enum table_optimizer optimizer = (enum table_optimizer)request->optimizer;
    const struct table_profile_request of_profile = { .profile = request->profile,
                                                      .micro_batches = request->micro_batches,
                                                      .optimizer = optimizer, .members = request->members };
    struct table_set *set = is_possible(request, error) ? table_set_of_profile(&of_profile, error) : NULL;
    const struct table_request on_cluster = { .set = set, .cluster = request->cluster, .optimizer = optimizer,
                                              .without_solver = true };
    struct table_plan *plan = set ? table_plan_make(&on_cluster, error) : NULL;
    char *words = plan ? words_of(plan, error) : NULL;
    table_plan_free(plan);
    table_set_free(set);
    return words;
}

char *least_expert_places(const struct profile *profile, uint32_t members, const struct cluster *cluster,
                          uint64_t micro_batches, struct error *error)
{
    const struct copy_pricing pricing = { profile, cluster, members, micro_batches > 0 ? micro_batches : 1 };
    struct expert_plans plans;
    struct text words = { 0 };
    if (!profile->routing) {
        error_set(error, "--experts least: the profile has no routing of experts: name a text with --data");
        return NULL;
    }
    if (!expert_plans_make(&pricing, &plans, error))
        return NULL;
    expert_plans_words(&plans, &words);
    expert_plans_clear(&plans);
    return text_take(&words, error);
}
