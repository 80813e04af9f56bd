// The same pipelines on queues that run ahead of their host, where nothing but events
// keeps one queue behind another.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "runtime/transport/threads.h"
#include "tests/runtime/synthetic_pipeline.h"

static const char queued[] = "cpu:queued";
static const uint64_t second_ns = 1000000000;

static void generated_schedules_run_in_all_ways(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++)
        for (uint32_t ranks = 1; ranks <= generator_ranks(generator, 4); ranks++)
            run_generated(queued, generator->name, ranks, ranks + 2 * (ranks % 2));
}

static void schedules_with_something_of_their_own_run_in_all_ways(void **state)
{
    (void)state;
    static const struct {
        const char *name, *document;
    } rows[] = { { "split", split_schedule }, { "v", v_schedule }, { "again", recompute_schedule },
                 { "both ways", chimera_schedule } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (enum input_life life = INPUT_UNTIL_F; life <= INPUT_UNTIL_W; life++) {
            struct pipeline pipeline = pipeline_read(queued, rows[i].document);
            for (uint32_t s = 0; s < pipeline.lowered->stages; s++)
                pipeline.synthetic[s].bytes.input_life = life;
            run_in_all_ways(&pipeline, rows[i].name);
            pipeline_clear(&pipeline);
        }
    }
}

// --- gates ---------------------------------------------------------------------------------

// What a queue does not pass before it is opened; it fails after ten seconds.
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_open;
};
#define GATE_SHUT { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static void pass_gate(struct queue *queue, const void *arguments)
{
    struct gate *gate = *(struct gate *const *)arguments;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    int late = 0;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open && late == 0)
        late = pthread_cond_timedwait(&gate->opened, &gate->lock, &until);
    pthread_mutex_unlock(&gate->lock);
    if (late != 0)
        queue_fail(queue, "a gate stayed shut");
}

static void open_in_turn(struct queue *queue, const void *arguments)
{
    (void)queue;
    open_gate(*(struct gate *const *)arguments);
}

static void sleep_ms(long ms)
{
    const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&time, NULL);
}

// --- receives that were posted early ---------------------------------------------------------

static bool comes_within(const struct event *event, uint64_t ns)
{
    const uint64_t end_ns = clock_now_ns() + ns;
    while (!event_done(event) && clock_now_ns() < end_ns)
        sleep_ms(1);
    return event_done(event);
}

static void post_pair(struct threads *threads, uint32_t from, uint32_t channel, uint64_t *slots, struct event *made,
                      struct ticket tickets[2])
{
    struct error error = { 0 };
    struct transport *sender = threads_transport(threads, from), *receiver = threads_transport(threads, 1);
    const struct message_header header = { 0 };
    assert_good(receiver->functions->post_receive(receiver, channel, &slots[1], 8, header, NULL, &tickets[1], &error)
                && sender->functions->post_send(sender, channel, &slots[0], 8, header, made, &tickets[0], &error)
                && receiver->functions->test(receiver, &tickets[1], &error)
                && sender->functions->test(sender, &tickets[0], &error), error);
    assert_true(tickets[0].done && tickets[1].done && tickets[1].event);
}

// Rank 1 receives from rank 0 what is made late, and then from rank 2 what is ready.
static void an_early_receive_does_not_hold_back_a_ready_send(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open(queued, &error);
    struct queue *queue = queue_create(device, &error);
    struct event *made = event_create(device, &error);
    const struct channel channels[] = { { 0, 1, 8, 1 }, { 2, 1, 8, 1 } };
    struct threads *threads =
        threads_create(3, channels, 2, &(struct threads_settings){ .device = device }, &error);
    assert_good(threads, error);
    uint64_t *slots = device_allocate(device, 32, &error);
    struct gate gate = GATE_SHUT, *at_gate = &gate;
    struct ticket late[2] = { 0 }, ready[2] = { 0 };
    slots[2] = 22;
    queue_call(queue, pass_gate, &at_gate, sizeof at_gate);
    queue_upload(queue, slots, &(uint64_t){ 11 }, 8);
    event_record(made, queue);
    threads_begin(threads);
    post_pair(threads, 0, 0, slots, made, late);
    post_pair(threads, 2, 1, slots + 2, NULL, ready);
    assert_true(comes_within(ready[1].event, 10 * second_ns));
    assert_false(event_done(late[1].event));
    assert_int_equal(slots[3], 22);
    open_gate(&gate);
    assert_true(comes_within(late[1].event, 10 * second_ns));
    assert_int_equal(slots[1], 11);
    threads_free(threads);
    queue_free(queue);
    event_free(made);
    device_release(device, slots);
    device_close(device);
}

// Stages whose third forward on stage 0 waits for the first backward on stage 1:
// nothing forbids it, and the receive of that forward is posted before the backward's.
struct gated {
    struct synthetic synthetic;  // first: it is what the stage is
    struct gate *gate;
    uint32_t calls;
};

static bool gated_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct gated *gated = self;
    if (gated->synthetic.stage == 0 && pass->base.micro_batch == 2)
        queue_call(pass->base.queue, pass_gate, &gated->gate, sizeof gated->gate);
    return synthetic_stage(self).functions->forward(self, pass, error);
}

static bool gated_until_told(void *self, const struct stage_pass *pass, struct error *error)
{
    struct gated *gated = self;
    if (gated->calls++ == 0)
        queue_call(pass->base.queue, pass_gate, &gated->gate, sizeof gated->gate);
    return synthetic_stage(self).functions->forward(self, pass, error);
}

static bool gated_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct gated *gated = self;
    if (gated->synthetic.stage == 2 && pass->base.micro_batch == 0)
        sleep_ms(50);  // the host: so that its message comes after the other receive
    const bool good = synthetic_stage(self).functions->backward(self, pass, error);
    if (gated->synthetic.stage == 1 && pass->base.micro_batch == 0)
        queue_call(pass->base.queue, open_in_turn, &gated->gate, sizeof gated->gate);
    return good;
}

static void a_schedule_that_one_queue_would_hold_up_runs(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named(queued, "1f1b", 3, 4);
    struct gated gated[3];
    struct gate gate = GATE_SHUT;
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.forward = gated_forward;
    functions.backward = gated_backward;
    set_stages(&pipeline);
    for (uint32_t s = 0; s < 3; s++) {
        gated[s] = (struct gated){ .synthetic = pipeline.synthetic[s], .gate = &gate };
        pipeline.stages[s].self = &gated[s];
        pipeline.stages[s].functions = &functions;
    }
    struct error error = { 0 };
    const struct session_settings settings = plain_settings();
    struct session *session = session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error);
    assert_good(session, error);
    assert_good(session_step(session, &error), error);
    assert_timeline_is_schedule(session, pipeline.lowered);
    session_free(session);
    pipeline_clear(&pipeline);
}

// --- before the first message ----------------------------------------------------------------

// How often a stage was asked for each kind of action.
struct counted {
    struct synthetic synthetic;  // first: it is what the stage is
    uint32_t calls[ACTION_KINDS];
    bool is_running;             // whether the first step has begun
};

static bool count_call(struct counted *counted, const struct stage_pass *pass, enum action_kind kind,
                       struct error *error)
{
    const struct stage_functions *functions = synthetic_stage(&counted->synthetic).functions;
    counted->calls[kind]++;
    if (counted->is_running)
        return (kind == ACTION_F ? functions->forward : functions->backward)(counted, pass, error);
    // What a stage would look for is there, though it says nothing.
    const bool is_first = counted->synthetic.stage == 0, is_last = counted->synthetic.stage == 2;
    const void *const gradient = kind == ACTION_F ? pass->base.output : pass->base.output_gradient;
    assert_true(!pass->base.input == is_first && !gradient == is_last && pass->base.saved && pass->base.parameters
                && pass->base.gradients);
    memset(pass->base.saved, 0xff, counted->synthetic.rows[counted->synthetic.stage].kept_forward_bytes);
    return true;
}

static bool counted_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    return count_call(self, pass, ACTION_F, error);
}

static bool counted_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    return count_call(self, pass, ACTION_B, error);
}

static void each_kind_of_action_is_done_once_before_the_first_message(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named(queued, "1f1b", 3, 4);
    struct counted counted[3];
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.forward = counted_forward;
    functions.backward = counted_backward;
    set_stages(&pipeline);
    for (uint32_t s = 0; s < 3; s++) {
        counted[s] = (struct counted){ .synthetic = pipeline.synthetic[s] };
        pipeline.stages[s].self = &counted[s];
        pipeline.stages[s].functions = &functions;
        pipeline.stages[s].warms_up = s != 1;
    }
    struct error error = { 0 };
    const struct session_settings settings = plain_settings();
    struct session *session = session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error);
    assert_good(session, error);
    for (uint32_t s = 0; s < 3; s++) {
        assert_int_equal(counted[s].calls[ACTION_F], s != 1);
        assert_int_equal(counted[s].calls[ACTION_B], s != 1);
        counted[s].is_running = true;
    }
    // Nothing of it is left: the stages check every byte they are given.
    for (int step = 0; step < 2; step++)
        assert_good(session_step(session, &error), error);
    for (uint32_t s = 0; s < 3; s++)
        assert_int_equal(counted[s].calls[ACTION_F], (s != 1) + 2 * 4);
    session_free(session);
    pipeline_clear(&pipeline);
}

// A queue that is stuck in its first action: the host gives a few more and then looks.
static void a_host_stays_near_its_device(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named(queued, "gpipe", 1, 80);
    struct gate gate = GATE_SHUT;
    struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
    functions.forward = gated_until_told;
    set_stages(&pipeline);
    struct gated gated = { .synthetic = pipeline.synthetic[0], .gate = &gate };
    pipeline.stages[0].self = &gated;
    pipeline.stages[0].functions = &functions;
    struct session_settings settings = plain_settings();
    settings.deadline_ns = second_ns / 5;
    struct error error = { 0 };
    struct session *session = session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error);
    assert_good(session, error);
    assert_false(session_step(session, &error));
    assert_error(error, "nothing came for 200 ms: rank 0 is at 0F0");
    assert_in_range(gated.calls, 2, 65);
    open_gate(&gate);
    session_free(session);
    pipeline_clear(&pipeline);
}

// --- trouble -----------------------------------------------------------------------------------

static void say_the_data_ends(struct queue *queue, const void *arguments)
{
    (void)arguments;
    queue_fail(queue, "the data ends at sample 7");
}

static bool does_nothing(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self, (void)pass, (void)error;
    return true;
}

static bool fails_at_2(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self, (void)error;
    if (pass->base.micro_batch == 2)
        queue_call(pass->base.queue, say_the_data_ends, NULL, 0);
    return true;
}

static size_t place_in_list(const struct action_list *list, const char *name)
{
    char at[ACTION_SIZE];
    size_t i = 0;
    while (i < list->count && strcmp(action_format(list->at[i], at), name) != 0)
        i++;
    assert_true(i < list->count);
    return i;
}

// The host may have given more by the time it knows: then the sentence says from what
// was known to be good to what was given, and the culprit is in between.
static void a_failing_kernel_is_named_as_well_as_can_be_known(void **state)
{
    (void)state;
    for (uint32_t stage = 0; stage < 3; stage++) {
        struct pipeline pipeline = pipeline_named(queued, "1f1b", 3, 6);
        struct stage_functions functions = *synthetic_stage(&pipeline.synthetic[0]).functions;
        functions.forward = fails_at_2;
        functions.backward = does_nothing;
        struct stage_functions silent = functions;
        silent.forward = does_nothing;
        set_stages(&pipeline);
        for (uint32_t s = 0; s < 3; s++)
            pipeline.stages[s].functions = s == stage ? &functions : &silent;
        struct error error = { 0 };
        const struct session_settings settings = plain_settings();
        struct session *session =
            session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error);
        assert_good(session, error);
        assert_false(session_step(session, &error));
        const struct action_list *list = &pipeline.lowered->lists[stage];
        char culprit[ACTION_SIZE], first[100], last[100];
        snprintf(culprit, sizeof culprit, "%uF2", stage);
        uint32_t rank;
        if (sscanf(error.text, "rank %u: one of the actions from %99[^ ] to %99[^:]: the data ends at sample 7", &rank,
                   first, last) != 3) {
            assert_int_equal(sscanf(error.text, "rank %u: %99[^:]: the data ends at sample 7", &rank, first), 2);
            strcpy(last, first);
        }
        assert_int_equal(rank, stage);
        assert_in_range(place_in_list(list, culprit), place_in_list(list, first), place_in_list(list, last));
        assert_non_null(strstr(error.text, ": the data ends at sample 7"));
        session_free(session);
        pipeline_clear(&pipeline);
    }
}

static bool waits_at_1(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    const struct gated *gated = self;
    if (gated->synthetic.stage == 0 && pass->base.micro_batch == 1)
        queue_call(pass->base.queue, pass_gate, &gated->gate, sizeof gated->gate);
    return true;
}

// Rank 0's queue is stuck in 0F1, and rank 1's behind the message of it.
static void what_a_queue_is_stuck_at_is_said_at_the_deadline(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named(queued, "gpipe", 2, 2);
    struct gate gate = GATE_SHUT;
    struct gated gated[2];
    const struct stage_functions *usual = synthetic_stage(&pipeline.synthetic[0]).functions;
    struct stage_functions functions = { .forward = waits_at_1, .backward = does_nothing,
                                         .backward_input = does_nothing, .backward_weight = does_nothing,
                                         .initialize = usual->initialize };
    set_stages(&pipeline);
    for (uint32_t s = 0; s < 2; s++) {
        gated[s] = (struct gated){ .synthetic = pipeline.synthetic[s], .gate = &gate };
        pipeline.stages[s].self = &gated[s];
        pipeline.stages[s].functions = &functions;
    }
    struct session_settings settings = plain_settings();
    settings.deadline_ns = second_ns / 5;
    struct error error = { 0 };
    struct session *session = session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error);
    assert_good(session, error);
    assert_false(session_step(session, &error));
    assert_error(error, "nothing came for 200 ms: rank 1 waits at 1RECV_F1 from rank 0; rank 0 is at 0F1");
    assert_int_equal(error.kind, ERROR_MACHINE);
    open_gate(&gate);
    session_free(session);
    pipeline_clear(&pipeline);
}

static void a_network_cannot_be_tried_there(void **state)
{
    (void)state;
    struct pipeline pipeline = pipeline_named(queued, "1f1b", 2, 2);
    struct error error = { 0 };
    struct network *network = network_uniform(2, (struct link){ .bytes_per_second = 1000 }, &error);
    assert_good(network, error);
    struct session_settings settings = plain_settings();
    settings.network = network;
    set_stages(&pipeline);
    assert_null(session_create(pipeline.lowered, pipeline.stages, pipeline.device, &settings, &error));
    assert_error(error, "no network can be tried on a device that runs ahead of its host; leave the network out, or "
                        "take device cpu");
    network_free(network);
    pipeline_clear(&pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_schedules_run_in_all_ways),
        cmocka_unit_test(schedules_with_something_of_their_own_run_in_all_ways),
        cmocka_unit_test(an_early_receive_does_not_hold_back_a_ready_send),
        cmocka_unit_test(a_schedule_that_one_queue_would_hold_up_runs),
        cmocka_unit_test(each_kind_of_action_is_done_once_before_the_first_message),
        cmocka_unit_test(a_host_stays_near_its_device),
        cmocka_unit_test(a_failing_kernel_is_named_as_well_as_can_be_known),
        cmocka_unit_test(what_a_queue_is_stuck_at_is_said_at_the_deadline),
        cmocka_unit_test(a_network_cannot_be_tried_there),
    };
    return cmocka_run_group_tests_name("a pipeline whose queues run ahead", tests, NULL, NULL);
}
