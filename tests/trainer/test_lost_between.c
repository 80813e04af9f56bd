// A rank that is lost between two passes, while the others ask each other whether to stop: the run ends with its reason,
// and says once on each rank what it did last, as for one that is lost within a pass.
#include <pthread.h>
#include <string.h>

#include "partitioner/plan_search.h"
#include "runtime/groups/thread_group.h"
#include "tests/test.h"
#include "trainer/measure_model.h"
#include "trainer/model_spec.h"
#include "trainer/train.h"

enum { RANKS = 2, TOKENS = 50000 };

static const char model_name[] = "gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2";

static struct plan *make_plan(void)
{
    struct error error = { 0 };
    struct measure_options options = measure_usual_options();
    options.repeats = 20;
    struct device *device = device_open("cpu", &error);
    struct profile *profile = device ? measure_model(model_name, device, &options, NULL, &error) : NULL;
    struct cluster *cluster = profile ? cluster_uniform(RANKS, (uint64_t)1 << 30, 5000, 10000000000, &error) : NULL;
    const struct search_request request = {
        .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = RANKS, .chunks = 1, .micro_batches = 4,
    };
    struct plan *plan = cluster ? plan_search(&request, &error) : NULL;
    assert_good(plan, error);
    cluster_free(cluster);
    profile_free(profile);
    device_close(device);
    return plan;
}

// A rank, whose group is what it is but for one question.
struct member {
    struct process_group real, group;
    unsigned asked, lost_at;  // between passes; 0: it is never lost
    const struct plan *plan;
    const struct model *model;
    const struct text_data *text;
    unsigned failed, spans;  // how often it was told, and what it had done last
    bool is_open, good;
    struct error error;
    pthread_t thread;
};

// Whether to stop, and whether to keep, are two numbers of each rank, and the only ones that ranks exchange once their
// sessions are open.
static bool ask_others(void *self, const void *own, uint64_t bytes, void *all, struct error *error)
{
    struct member *member = self;
    if (member->is_open && bytes == 2 * sizeof(uint64_t) && ++member->asked == member->lost_at) {
        error_set_kind(error, ERROR_MACHINE, "rank %u was taken away", member->real.rank);
        member->real.abandon(member->real.self, error);
        return false;
    }
    return member->real.all_gather(member->real.self, own, bytes, all, error);
}

static bool broadcast(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    const struct member *member = self;
    return member->real.broadcast(member->real.self, from, data, bytes, error);
}

static bool is_well(void *self, struct error *error)
{
    const struct member *member = self;
    return member->real.is_well(member->real.self, error);
}

static void abandon(void *self, const struct error *reason)
{
    const struct member *member = self;
    member->real.abandon(member->real.self, reason);
}

static void note_opened(void *self, const struct session *session)
{
    struct member *member = self;
    (void)session;
    member->is_open = true;
}

static void count_failure(void *self, const struct session *session)
{
    struct member *member = self;
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    member->failed++;
    if (session_last_actions(session, &timeline, &error))
        for (size_t i = 0; i < timeline.span_count; i++)
            member->spans += timeline.spans[i].rank == member->real.rank;
    timeline_clear(&timeline);
}

static void *train(void *argument)
{
    struct member *member = argument;
    bool is_stuck = false;
    const struct train_settings settings = {
        .text = member->text, .steps = 5, .seed = 1, .rates = { .highest = 0.001f, .share = 0.1f },
        .place = { .device = "cpu:queued", .group = &member->group, .is_stuck = &is_stuck, .opened = note_opened,
                   .failed = count_failure, .self = member },
    };
    struct train_result result;
    member->good = train_plan(member->plan, member->model, &settings, &result, &member->error);
    train_result_clear(&result);
    return NULL;
}

static void run(struct member members[RANKS], unsigned lost_at)
{
    struct error error = { 0 };
    static uint16_t tokens[TOKENS];
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = (uint16_t)(i * 7 % 101);
    const struct text_data text = { .train = tokens, .train_count = TOKENS, .held = tokens, .held_count = 4096,
                                    .file_count = 1, .vocabulary = 256 };
    struct plan *plan = make_plan();
    struct model *model = model_from_spec(model_name, PRECISION_FP32, &error);
    struct thread_group *group = thread_group_create(RANKS, 0, &error);
    assert_good(model && group, error);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct member *member = &members[rank];
        *member = (struct member){ .real = thread_group_member(group, rank), .lost_at = rank == 1 ? lost_at : 0,
                                   .plan = plan, .model = model, .text = &text };
        member->group = member->real;
        member->group.self = member;
        member->group.all_gather = ask_others;
        member->group.broadcast = broadcast;
        member->group.is_well = is_well;
        member->group.abandon = abandon;
        assert_int_equal(pthread_create(&member->thread, NULL, train, member), 0);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        pthread_join(members[rank].thread, NULL);
    thread_group_free(group);
    model_free(model);
    plan_free(plan);
}

static void a_rank_that_is_lost_between_passes_ends_all(void **state)
{
    (void)state;
    for (unsigned lost_at = 1; lost_at <= 3; lost_at++) {
        struct member members[RANKS];
        run(members, lost_at);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_false(members[rank].good);
            assert_int_equal(members[rank].error.kind, ERROR_MACHINE);
            assert_non_null(strstr(members[rank].error.text, "rank 1 was taken away"));
            assert_int_equal(members[rank].failed, 1);
            assert_true(members[rank].spans > 0);
        }
    }
}

static void a_rank_that_is_not_lost_ends_well(void **state)
{
    (void)state;
    struct member members[RANKS];
    run(members, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_good(members[rank].good, members[rank].error);
        assert_int_equal(members[rank].failed, 0);
        assert_int_equal(members[rank].asked, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_lost_between_passes_ends_all),
        cmocka_unit_test(a_rank_that_is_not_lost_ends_well),
    };
    return cmocka_run_group_tests_name("a rank lost between passes", tests, NULL, NULL);
}
