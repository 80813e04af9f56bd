// Stages over groups of devices: all shards on one device, and a device for each member of each rank, have the bits of
// all shards in one place.
#include "trainer/split_layers.h"

#include <pthread.h>

#include "runtime/groups/thread_group.h"
#include "tests/trainer/made_plan.h"
#include "trainer/verify.h"

#define GPT "gpt-nano,width=16,blocks=3,heads=4"
enum { GROUP_MOST = 4, PLACES_MOST = MOST_RANKS * GROUP_MOST };

// A place of a run, in a thread of its own.
struct seated {
    const struct plan *plan;
    const struct model *model;
    const char *device;
    struct process_group group;
    struct verify_settings settings;
    struct verification result;
    pthread_t thread;
    bool good;
    struct error error;
};

static void *verify_at(void *argument)
{
    struct seated *seated = argument;
    const struct run_place place = { .device = seated->device, .group = &seated->group };
    seated->good = verify_plan(seated->plan, seated->model, &place, &seated->settings, &seated->result,
                               &seated->error);
    if (!seated->good)
        seated->group.abandon(seated->group.self, &seated->error);
    return NULL;
}

static void verify_apart(uint64_t trial, const struct plan *plan, const struct model *model,
                         const struct verify_settings *settings)
{
    struct error error = { 0 };
    static struct seated all[PLACES_MOST];
    const uint32_t count = (uint32_t)plan_seat_count(plan);
    assert_true(count <= PLACES_MOST);
    struct thread_group *group = thread_group_create(count, 0, &error);
    assert_good(group, error);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (struct seated){ .plan = plan, .model = model, .group = thread_group_member(group, i),
                                  .device = trial % 3 ? "cpu:queued" : "cpu:queued,graphs",
                                  .settings = *settings };
        assert_int_equal(pthread_create(&all[i].thread, NULL, verify_at, &all[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(all[i].thread, NULL);
    for (uint32_t i = 0; i < count; i++)
        if (!all[i].good || !all[i].result.equal)
            fail_msg("trial %llu: %s, place %u of %u: %s: %llu parameters differ, first copy %u of %s[%llu]; %u losses",
                     (unsigned long long)trial, plan->schedule, i, count, all[i].error.text,
                     (unsigned long long)all[i].result.differing, all[i].result.copy, all[i].result.layer,
                     (unsigned long long)all[i].result.index, all[i].result.losses_differing);
    thread_group_free(group);
}

static void verify_together(uint64_t trial, const struct plan *plan, const struct model *model,
                            const struct verify_settings *settings)
{
    const struct run_place place = { .device = device_of(trial, PRECISION_FP32) };
    struct verification result;
    struct error error = { 0 };
    assert_good(verify_plan(plan, model, &place, settings, &result, &error), error);
    if (!result.equal)
        fail_msg("trial %llu: %s: %llu parameters differ, first copy %u of %s[%llu]; %u losses",
                 (unsigned long long)trial, plan->schedule, (unsigned long long)result.differing, result.copy,
                 result.layer, (unsigned long long)result.index, result.losses_differing);
}

// The group of a stage before that is on the same rank, or 0.
static uint32_t group_beside(const struct made *made, size_t stage)
{
    for (size_t s = 0; s < stage; s++)
        for (size_t copy = 0; copy < made->stages[s].device_count; copy++)
            if (made->devices[s][copy] == made->devices[stage][0])
                return made->stages[s].group;
    return 0;
}

// How the members of groups split layers.
enum how { SPLIT_TENSORS, SHARE_ROWS, OWN_ROWS };

// Groups of random sizes for ranks: alike where members have rows each.
static void draw_groups(struct made *made, uint64_t *seed, enum how how, uint32_t devices[MOST][PLACES_MOST])
{
    static const uint32_t groups[] = { 1, 2, 4, 2 };
    static const char *const words[] = { "tensor%u", "tensor%usp", "rows%u" };
    static char names[5][16];
    uint32_t group = how != SPLIT_TENSORS && random_below(seed, 2) ? 4 : 2;
    if (how == OWN_ROWS && random_below(seed, 2))
        group = 3;
    for (size_t s = 0; s < made->plan.stage_count; s++) {
        struct plan_stage *stage = &made->stages[s];
        const uint32_t beside = group_beside(made, s);
        if (how == SPLIT_TENSORS)
            group = beside ? beside : groups[random_below(seed, s == 0 ? 4 : 3)];
        stage->devices = devices[s];
        stage->group = group;
        for (size_t copy = 0; copy < stage->device_count; copy++)
            for (uint32_t i = 0; i < group; i++)
                stage->devices[copy * group + i] = made->devices[s][copy] * GROUP_MOST + i;
        snprintf(names[group], sizeof names[group], words[how], group);
        stage->variant = group > 1 ? names[group] : NULL;
    }
}

static void any_groups_compute_what_one_place_does(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "pipedream", "interleaved", "chimera",
                                             "pipedream-2bw", "seq1f1b" };
    size_t unlike = 0;
    for (uint64_t trial = 0; trial < test_trials(24, 400); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct made made = { .plan.storage.optimizer = (enum optimizer_kind)random_below(&seed, 3) };
        static uint32_t devices[MOST][PLACES_MOST];
        const struct asked asked = { .generator = generator_find(schedules[trial % 8], &error), .ranks = 2,
                                     .micro_batches = 4 };
        assert_good(asked.generator && set_schedule(&made, &asked), error);
        const bool is_long = strcmp(asked.generator->name, "seq1f1b") == 0;
        const enum how how = (enum how)(trial / 8 % 3);
        const bool is_branched = how == OWN_ROWS && trial % 2;
        struct model *model = model_from_spec(is_long       ? GPT ",sequence=256,micro_batch=4"
                                              : is_branched ? "mlp-unet,width=16,blocks=1,sequence=8,micro_batch=5"
                                              : how == OWN_ROWS ? GPT ",sequence=8,micro_batch=5,dropout=0.1"
                                                                : GPT ",sequence=8,micro_batch=2,dropout=0.1",
                                              PRECISION_FP32, &error);
        assert_good(model, error);
        cut(&made, model, &seed, random_below(&seed, 2));
        draw_groups(&made, &seed, how, devices);
        unlike += plan_seat_count(&made.plan) != made.plan.ranks * plan_members(&made.plan);
        const float clip = made.plan.weights == WEIGHTS_FLUSH && random_below(&seed, 2) ? 0.5f : 0;
        const struct verify_settings settings = { .steps = 2, .seed = trial, .clip = clip };
        verify_together(trial, &made.plan, model, &settings);
        verify_apart(trial, &made.plan, model, &settings);
        model_free(model);
    }
    assert_true(unlike > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_groups_compute_what_one_place_does),
    };
    return cmocka_run_group_tests_name("split_layers", tests, NULL, NULL);
}
