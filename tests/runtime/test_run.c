// Whole pipelines of synthetic stages, which look at every byte they get.
#include "runtime/run.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/runtime/synthetic_pipeline.h"
#include "tests/sanitizer.h"

// --- counting malloc ------------------------------------------------------------------

// The program's own malloc, which counts. Sanitizers bring theirs.
static atomic_size_t mallocs;

#if !HAS_SANITIZER
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_realloc(memory, bytes);
}
#endif

// --- what runs ------------------------------------------------------------------------------------

static void generated_schedules_run_in_all_ways(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++)
        for (uint32_t ranks = 1; ranks <= generator_ranks(generator, 5); ranks++)
            for (uint32_t micro_batches = ranks; micro_batches <= 7; micro_batches += 3)
                run_generated("cpu", generator->name, ranks, micro_batches);
}

// In the strictest of worlds.
static void every_schedule_runs_on_sixteen_ranks(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct pipeline pipeline = pipeline_named("cpu", generator->name, generator_ranks(generator, 16), 32);
        struct session_settings settings = plain_settings();
        settings.waiting = WAIT_IN_ORDER;
        struct session *session = open_session(&pipeline, &settings);
        for (uint32_t step = 1; step <= 2; step++) {
            struct error error = { 0 };
            if (!session_step(session, &error))
                fail_msg("%s, step %u: %s", generator->name, step, error.text);
            assert_updates(session, &pipeline, step);
        }
        session_free(session);
        pipeline_clear(&pipeline);
    }
}

static void a_split_backward_runs_with_every_life_of_the_input(void **state)
{
    (void)state;
    for (enum input_life life = INPUT_UNTIL_F; life <= INPUT_UNTIL_W; life++) {
        struct pipeline pipeline = pipeline_read("cpu", split_schedule);
        for (uint32_t s = 0; s < 2; s++) {
            pipeline.synthetic[s].bytes.input_life = life;
            pipeline.synthetic[s].bytes.kept_through = 512;
        }
        run_in_all_ways(&pipeline, "split");
        pipeline_clear(&pipeline);
    }
}

static void neighbours_on_one_rank_read_from_each_other(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", v_schedule);
    run_in_all_ways(&pipeline, "v");
    pipeline_clear(&pipeline);
}

static void what_is_run_again_ahead_is_not_run_again_within(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", recompute_schedule);
    pipeline.synthetic[0].costs.recompute_ns = 1000;
    run_in_all_ways(&pipeline, "again");
    const struct session_settings settings = plain_settings();
    struct session *session = open_session(&pipeline, &settings);
    struct error error = { 0 };
    assert_good(session_step(session, &error), error);
    assert_int_equal(session_last(session)->per_rank[0].recompute_ns, 2000);
    session_free(session);
    pipeline_clear(&pipeline);
}

static void copies_of_a_stage_add_up_and_stay_equal(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", chimera_schedule);
    run_in_all_ways(&pipeline, "both ways");
    pipeline_clear(&pipeline);
}

// Rank 1 goes past the REDUCEs.
static void a_reduction_that_waits_is_named(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", chimera_schedule);
    struct action_list *list = &pipeline.lowered->lists[1];
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].kind != ACTION_REDUCE)
            list->at[kept++] = list->at[i];
    list->count = kept;
    const struct session_settings settings = plain_settings();
    struct session *session = open_session(&pipeline, &settings);
    struct error error = { 0 };
    assert_false(session_step(session, &error));
    assert_error(error, "nothing can ever move: rank 0 waits at 0REDUCE for 0REDUCE of rank 1");
    session_free(session);
    pipeline_clear(&pipeline);
}

static const char inference_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"inference\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 4, \"micro_batches\": 3, \"routes\": [[0, 1, 1, 0]], \"route_of\": [0, 0, 0], \"actions\": ["
    "  \"0F0 0F1 0F2 3F0 3F1 3F2\", \"1F0 2F0 1F1 2F1 1F2 2F2\"] }";

static void forwards_alone_keep_nothing_and_update_nothing(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", inference_schedule);
    for (enum input_life life = INPUT_UNTIL_F; life <= INPUT_UNTIL_W; life++) {
        for (uint32_t s = 0; s < 4; s++)
            pipeline.synthetic[s].bytes.input_life = life;
        run_in_all_ways(&pipeline, "inference");
    }
    pipeline_clear(&pipeline);
}

// Updates of two micro-batches each, made from gradients at the weights before.
static const char double_buffered_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"double\", \"weights\": \"2bw\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 6, \"routes\": [[0, 1]], \"route_of\": [0, 0, 0, 0, 0, 0], \"actions\": ["
    "  \"0F0 0F1 0B0 0F2 0B1 0STEP0 0F3 0B2 0F4 0B3 0STEP1 0F5 0B4 0B5 0STEP2\","
    "  \"1F0 1B0 1F1 1B1 1STEP0 1F2 1B2 1F3 1B3 1STEP1 1F4 1B4 1F5 1B5 1STEP2\"] }";

static const char vertical_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"vertical\", \"weights\": \"vertical\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 4, \"routes\": [[0, 1]], \"route_of\": [0, 0, 0, 0], \"actions\": ["
    "  \"0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0F3 0B2 0STEP2 0B3 0STEP3\","
    "  \"1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2 1F3 1B3 1STEP3\"] }";

static void older_weights_are_met_as_the_schedule_says(void **state)
{
    (void)state;
    const char *const documents[] = { double_buffered_schedule, vertical_schedule };
    for (size_t d = 0; d < 2; d++) {
        struct pipeline pipeline = pipeline_read("cpu", documents[d]);
        run_in_all_ways(&pipeline, pipeline.lowered->name);
        pipeline_clear(&pipeline);
    }
}

// A forward and a backward of other micro-batches at the same time.
static const char group_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"groups\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 3, \"routes\": [[0, 1]], \"route_of\": [0, 0, 0], \"actions\": ["
    "  \"0F0 0F1 (0F2;0B0)OVERLAP_F_B 0B1 0B2 0STEP\","
    "  \"1F0 (1F1;1B0)OVERLAP_F_B (1B1;1F2)OVERLAP_F_B 1B2 1STEP\"] }";

static void what_is_done_together_is_begun_together_and_takes_one_time(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", group_schedule);
    run_in_all_ways(&pipeline, "groups");
    for (uint32_t s = 0; s < 2; s++) {
        pipeline.synthetic[s].costs.forward_ns = pipeline.synthetic[s].costs.backward_ns = 10000000;
        pipeline.costs[s].overlapped_ns = 2000000;
    }
    const struct session_settings settings = plain_settings();
    struct session *session = open_session(&pipeline, &settings);
    struct error error = { 0 };
    struct timeline timeline = { 0 };
    assert_good(session_step(session, &error), error);
    assert_good(session_timeline(session, &timeline, &error), error);
    size_t groups = 0;
    for (size_t i = 0; i + 1 < timeline.span_count; i++) {
        const struct span *span = &timeline.spans[i];
        if (!span->action.joined)
            continue;
        groups++;
        assert_int_equal(span->start_ns, span[1].start_ns);
        assert_int_equal(span->end_ns, span[1].end_ns);
        assert_true(span->end_ns - span->start_ns >= 2000000);
    }
    assert_int_equal(groups, 3);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct rank_result *result = &session_last(session)->per_rank[rank];
        assert_true(result->busy_ns <= result->last_ns - result->first_ns);
    }
    timeline_clear(&timeline);
    session_free(session);
    pipeline_clear(&pipeline);
}

// Each sequence in two parts: forward the first one first, backward the last one first.
static const char sequence_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"sequence\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 2, \"splits\": 2, \"routes\": [[0, 1]], \"route_of\": [0, 0], \"actions\": ["
    "  \"0F0 0F0.1 0F1 0F1.1 0B0.1 0B0 0B1.1 0B1 0STEP\","
    "  \"1F0 1F0.1 1B0.1 1B0 1F1 1F1.1 1B1.1 1B1 1STEP\"] }";

static void parts_of_a_sequence_travel_with_their_share_of_the_bytes(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", sequence_schedule);
    for (uint32_t s = 0; s < 2; s++)  // what no two parts are alike of
        pipeline.synthetic[s].bytes.kept = 256 * 7;
    run_in_all_ways(&pipeline, "sequence");
    pipeline_clear(&pipeline);
}

static void whole_sequences_are_not_split(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", sequence_schedule);
    const struct session_settings settings = plain_settings();
    struct error error = { 0 };
    set_stages(&pipeline);
    pipeline.stages[1].takes_splits = false;
    assert_null(session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error));
    assert_error(error, "the schedule passes each sequence through in 2 splits, and the layers of stage 1 take whole "
                        "sequences only");
    pipeline_clear(&pipeline);
}

// Nothing is judged, but it is passed.
static const char validated_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"validated\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 2, \"routes\": [[0, 1]], \"route_of\": [0, 0], \"actions\": ["
    "  \"0F0 0F1 0VALIDATE 0B0 0B1 0STEP\", \"1F0 1VALIDATE 1B0 1F1 1B1 1STEP\"] }";

static void a_validation_finds_nothing_to_judge(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", validated_schedule);
    run_in_all_ways(&pipeline, "validated");
    pipeline_clear(&pipeline);
}

// --- memory --------------------------------------------------------------------------------------

// The slabs of a rank's stages, of which only the largest workspace counts.
static uint64_t counted_bytes(const struct pipeline *pipeline, const struct slots *slots, uint32_t rank)
{
    struct error error = { 0 };
    uint64_t sum = 0, workspace = 0;
    struct placement *placement = placement_read(pipeline->lowered, &error);
    assert_good(placement, error);
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const uint32_t s = placement->held[at];
        const struct stage_bytes bytes = stage_bytes_of_split(pipeline->stages[s].bytes, pipeline->lowered->splits);
        const struct stage_memory memory = stage_memory_of(&bytes, &slots[s]);
        sum += memory.peak_bytes - memory.transient_bytes;
        workspace = memory.transient_bytes > workspace ? memory.transient_bytes : workspace;
    }
    placement_free(placement);
    return sum + workspace;
}

static void assert_counted(struct pipeline *pipeline)
{
    const struct session_settings settings = plain_settings();
    const struct device_memory before = device_memory(pipeline->device);
    struct session *session = open_session(pipeline, &settings);
    struct slots slots[MOST_STAGES];
    struct error error = { 0 };
    assert_good(slots_count(pipeline->lowered, slots, &error), error);
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < pipeline->lowered->ranks; rank++) {
        const uint64_t bytes = counted_bytes(pipeline, slots, rank);
        assert_int_equal(session_slab_bytes(session, rank), bytes);
        sum += session_slab_bytes(session, rank);
    }
    for (int step = 0; step < 2; step++)
        assert_good(session_step(session, &error), error);
    const struct device_memory after = device_memory(pipeline->device);
    assert_int_equal(after.peak_bytes - before.current_bytes, sum);
    assert_int_equal(after.allocations - before.allocations, pipeline->lowered->ranks);
    session_free(session);
    assert_int_equal(device_memory(pipeline->device).current_bytes, before.current_bytes);
}

static void what_is_allocated_is_what_the_plan_counts(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct pipeline pipeline = pipeline_named("cpu", generator->name, generator_ranks(generator, 4), 8);
        assert_counted(&pipeline);
        pipeline_clear(&pipeline);
    }
}

static void steps_call_no_malloc(void **state)
{
    (void)state;
    if (HAS_SANITIZER)
        TEST_SKIP("the sanitizer has a malloc of its own");
    static const char *const names[] = { "1f1b", "pipedream", "chimera", "dualpipev", "seq1f1b" };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct pipeline pipeline = pipeline_named("cpu", names[n], 4, 8);
        const struct session_settings settings = plain_settings();
        struct session *session = open_session(&pipeline, &settings);
        struct error error = { 0 };
        assert_good(session_step(session, &error), error);
        const size_t before = atomic_load(&mallocs);
        for (int step = 0; step < 5; step++)
            assert_good(session_step(session, &error), error);
        assert_int_equal(atomic_load(&mallocs) - before, 0);
        session_free(session);
        assert_true(atomic_load(&mallocs) > 0);  // it does count
        pipeline_clear(&pipeline);
    }
}

static void what_is_run_again_is_shown_apart(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named("cpu", "1f1b", 2, 3);
    pipeline.synthetic[0].costs.recompute_ns = 1000000;
    const struct session_settings settings = plain_settings();
    struct session *session = open_session(&pipeline, &settings);
    struct error error = { 0 };
    assert_good(session_step(session, &error), error);
    const struct rank_result *per_rank = session_last(session)->per_rank;
    assert_int_equal(per_rank[0].recompute_ns, 3000000);
    assert_true(per_rank[0].busy_ns >= 3000000);
    assert_int_equal(per_rank[1].recompute_ns, 0);
    session_free(session);
    pipeline_clear(&pipeline);
}

// --- what goes wrong ----------------------------------------------------------------------------------

// Both ranks begin by sending: without a buffer neither is heard.
static const char crossed_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"crossed\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 2, \"routes\": [[0, 1]], \"route_of\": [0, 0], \"actions\": ["
    "  \"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\","
    "  \"1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\"] }";

static void a_standstill_is_known_at_once_and_named(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", crossed_schedule);
    struct session_settings settings = plain_settings();
    settings.waiting = WAIT_IN_ORDER;
    struct session *session = open_session(&pipeline, &settings);
    struct error error = { 0 }, again = { 0 };
    assert_false(session_step(session, &error));
    assert_error(error, "nothing can ever move: rank 0 waits at 0SEND_F1 to rank 1; rank 1 waits at 1SEND_B0 to rank "
                        "0");
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_false(session_step(session, &again));
    assert_error(again, error.text);
    session_free(session);

    settings.capacity = 1;  // one buffered message each is enough
    session = open_session(&pipeline, &settings);
    error = (struct error){ 0 };
    assert_good(session_step(session, &error), error);
    session_free(session);
    pipeline_clear(&pipeline);
}

static sem_t gate;  // at which a layer stays until the test lets it on

static bool stays_away(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    while (sem_wait(&gate) != 0)
        ;
    return true;
}

static bool fails_at_2(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self;
    return pass->base.micro_batch != 2 || error_set(error, "the data ends at sample 7");
}

static bool does_nothing(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static struct session *session_with(struct pipeline *pipeline, uint32_t stage, const struct stage_functions *functions,
                                    uint64_t deadline_ns)
{
    struct error error = { 0 };
    struct session_settings settings = plain_settings();
    settings.deadline_ns = deadline_ns;
    set_stages(pipeline);
    pipeline->stages[stage].functions = functions;
    struct session *session =
        session_create(pipeline->lowered, pipeline->stages, pipeline->device, &settings, &error);
    assert_good(session, error);
    return session;
}

static void a_missed_deadline_says_who_waits_for_what(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named("cpu", "1f1b", 2, 2);
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.forward = stays_away;
    struct session *session = session_with(&pipeline, 1, &functions, 10000000000);
    struct error error = { 0 };
    assert_false(session_step(session, &error));
    assert_error(error, "nothing came for 10.0 s: rank 0 waits at 0RECV_B0 from rank 1; rank 1 is at 1F0; rank 1 is left "
                        "at 1F0: a layer does not come back");
    assert_int_equal(error.kind, ERROR_MACHINE);
    sem_post(&gate);
    assert_int_equal(session_free(session), 0);  // it was only slow: nothing is left
    pipeline_clear(&pipeline);
}

static bool stays_away_at_3(void *self, const struct stage_pass *pass, struct error *error)
{
    return pass->base.micro_batch == 3 ? stays_away(self, pass, error)
                                  : synthetic_stage(self).functions->backward(self, pass, error);
}

static void a_reduction_has_a_deadline(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", chimera_schedule);
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.backward = stays_away_at_3;
    struct session *session = session_with(&pipeline, 0, &functions, 10000000000);
    struct error error = { 0 };
    assert_false(session_step(session, &error));
    assert_error(error, "nothing came for 10.0 s: rank 0 waits at 0REDUCE for 0REDUCE of rank 1; rank 1 is at 0B3; rank 1 "
                        "is left at 0B3: a layer does not come back");
    assert_int_equal(error.kind, ERROR_MACHINE);
    sem_post(&gate);
    assert_int_equal(session_free(session), 0);
    pipeline_clear(&pipeline);
}

static bool fails_at_3(void *self, const struct stage_pass *pass, struct error *error)
{
    return pass->base.micro_batch == 3 ? error_set(error, "the data ends at sample 9")
                                  : synthetic_stage(self).functions->backward(self, pass, error);
}

static void who_waits_in_a_reduction_hears_of_a_failure(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", chimera_schedule);
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.backward = fails_at_3;
    struct session *session = session_with(&pipeline, 0, &functions, 0);
    struct error error = { 0 };
    assert_false(session_step(session, &error));
    assert_error(error, "rank 1: 0B3: the data ends at sample 9");
    session_free(session);
    pipeline_clear(&pipeline);
}

// The last actions of a session whose rank `rank` has failed, as that rank had begun them.
struct ending {
    uint32_t rank, told;
    char actions[200];
};

static void note_ending(void *self, const struct session *session)
{
    struct ending *ending = self;
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    ending->told++;
    assert_true(session_last_actions(session, &timeline, &error));
    for (size_t i = 0; i < timeline.span_count; i++) {
        const struct span *span = &timeline.spans[i];
        char name[ACTION_SIZE];
        assert_true(span->end_ns >= span->start_ns);
        if (span->rank == ending->rank)
            snprintf(ending->actions + strlen(ending->actions), sizeof ending->actions - strlen(ending->actions), " %s",
                     action_format(span->action, name));
    }
    timeline_clear(&timeline);
}

static void one_failing_rank_ends_all_with_its_error(void **state)
{
    (void)state;
    static const char *const last[] = { " 0F0 0F1 0F2", " 1F0 1F1 1F2", " 2F0 2F1 2B0 2F2", " 3F0 3B0 3F1 3B1 3F2" };
    for (uint32_t stage = 0; stage < 4; stage++) {
        struct pipeline pipeline = pipeline_named("cpu", "1f1b", 4, 6);
        struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
        functions.forward = fails_at_2;
        functions.backward = does_nothing;
        // Stages above and below would find the wrong bytes first.
        struct ending ending = { .rank = stage };
        struct session_settings settings = plain_settings();
        settings.failed = note_ending;
        settings.self = &ending;
        struct error error = { 0 };
        set_stages(&pipeline);
        struct stage_functions silent = functions;
        silent.forward = does_nothing;
        for (uint32_t s = 0; s < 4; s++)
            pipeline.stages[s].functions = s == stage ? &functions : &silent;
        struct session *session =
            session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error);
        assert_good(session, error);
        assert_false(session_step(session, &error));
        char sentence[100];
        snprintf(sentence, sizeof sentence, "rank %u: %uF2: the data ends at sample 7", stage, stage);
        assert_error(error, sentence);
        assert_int_equal(error.kind, ERROR_INPUT);
        assert_false(session_step(session, &error));
        assert_int_equal(ending.told, 1);
        assert_string_equal(ending.actions, last[stage]);
        session_free(session);
        pipeline_clear(&pipeline);
    }
}

static void a_wrong_byte_is_found_by_the_stage_that_reads_it(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named("cpu", "gpipe", 2, 2);
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.forward = does_nothing;
    struct session *session = session_with(&pipeline, 0, &functions, 0);
    struct error error = { 0 };
    assert_false(session_step(session, &error));
    assert_error(error, "rank 1: 1F0: the bytes from 0 on are not the output of stage 0 for micro-batch 0, step 0, "
                        "weight version 0");
    session_free(session);
    pipeline_clear(&pipeline);
}

static void stages_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named("cpu", "gpipe", 2, 2);
    const struct session_settings settings = plain_settings();
    struct error error = { 0 };
    pipeline.synthetic[1].bytes.input = 256;
    set_stages(&pipeline);
    assert_null(session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error));
    assert_error(error, "stage 0 hands on 1024 bytes, but stage 1 takes 256");
    pipeline_clear(&pipeline);
}

static void an_r_is_refused_by_layers_that_run_again_within_b(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_read("cpu", recompute_schedule);
    const struct session_settings settings = plain_settings();
    struct error error = { 0 };
    set_stages(&pipeline);
    struct stage_functions functions = *pipeline.stages[0].functions;
    functions.recompute = NULL;
    pipeline.stages[0].functions = &functions;
    assert_null(session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error));
    assert_error(error, "rank 0: 0R0 cannot be an action of its own: these layers run their forwards again within B or "
                        "I; leave it out of the schedule");
    pipeline_clear(&pipeline);
}

int main(void)
{
    sem_init(&gate, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_schedules_run_in_all_ways),
        cmocka_unit_test(every_schedule_runs_on_sixteen_ranks),
        cmocka_unit_test(a_split_backward_runs_with_every_life_of_the_input),
        cmocka_unit_test(neighbours_on_one_rank_read_from_each_other),
        cmocka_unit_test(what_is_run_again_ahead_is_not_run_again_within),
        cmocka_unit_test(copies_of_a_stage_add_up_and_stay_equal),
        cmocka_unit_test(a_reduction_that_waits_is_named),
        cmocka_unit_test(forwards_alone_keep_nothing_and_update_nothing),
        cmocka_unit_test(older_weights_are_met_as_the_schedule_says),
        cmocka_unit_test(what_is_done_together_is_begun_together_and_takes_one_time),
        cmocka_unit_test(parts_of_a_sequence_travel_with_their_share_of_the_bytes),
        cmocka_unit_test(whole_sequences_are_not_split),
        cmocka_unit_test(a_validation_finds_nothing_to_judge),
        cmocka_unit_test(what_is_allocated_is_what_the_plan_counts),
        cmocka_unit_test(steps_call_no_malloc),
        cmocka_unit_test(what_is_run_again_is_shown_apart),
        cmocka_unit_test(a_standstill_is_known_at_once_and_named),
        cmocka_unit_test(a_missed_deadline_says_who_waits_for_what),
        cmocka_unit_test(a_reduction_has_a_deadline),
        cmocka_unit_test(who_waits_in_a_reduction_hears_of_a_failure),
        cmocka_unit_test(one_failing_rank_ends_all_with_its_error),
        cmocka_unit_test(a_wrong_byte_is_found_by_the_stage_that_reads_it),
        cmocka_unit_test(stages_that_do_not_fit_are_refused),
        cmocka_unit_test(an_r_is_refused_by_layers_that_run_again_within_b),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
