// Queues that run ahead: what must hold of them, and of "cpu:queued" as the one of
// them that every machine has.
#include "device/communicator.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/random.h"
#include "device/kernels.h"
#include "tests/test.h"

enum { QUEUES = 8, CELLS = 16, WORKS = 200 };

// A gate in a queue's way, which the host opens.
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_open;
};
#define GATE_SHUT (struct gate){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static void pass_gate(struct queue *queue, const void *arguments)
{
    (void)queue;
    struct gate *gate = *(struct gate *const *)arguments;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void shut(struct queue *queue, struct gate *gate)
{
    queue_call(queue, pass_gate, &gate, sizeof gate);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

struct bench {
    struct device *device;
    struct queue *queues[QUEUES];
    float *cells;
    struct error error;
};

static struct bench bench_open(void)
{
    struct bench bench = { 0 };
    bench.device = device_open("cpu:queued", &bench.error);
    assert_good(bench.device, bench.error);
    for (int q = 0; q < QUEUES; q++)
        assert_good(bench.queues[q] = queue_create(bench.device, &bench.error), bench.error);
    bench.cells = device_allocate(bench.device, CELLS * sizeof(float), &bench.error);
    queue_zero(bench.queues[0], bench.cells, CELLS * sizeof(float));
    assert_good(queue_wait(bench.queues[0], &bench.error), bench.error);
    return bench;
}

static void bench_close(struct bench *bench)
{
    for (int q = 0; q < QUEUES; q++)
        queue_free(bench->queues[q]);
    device_release(bench->device, bench->cells);
    device_close(bench->device);
}

static struct event *new_event(struct bench *bench)
{
    struct event *event = event_create(bench->device, &bench->error);
    assert_good(event, bench->error);
    return event;
}

static void a_queue_does_later_what_it_was_given_in_order(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    struct queue *queue = bench.queues[0];
    struct gate gate = GATE_SHUT;
    struct event *event = new_event(&bench);
    float host = 1;
    assert_true(device_runs_ahead(bench.device) && event_done(event));
    shut(queue, &gate);
    queue_upload(queue, bench.cells, &host, sizeof host);
    host = 0;  // what is uploaded is a copy
    struct sgd sgd = { .rate = 1 };
    struct optimizer_span span = { .next = (void *)bench.cells, .weights = (void *)bench.cells,
                                   .gradients = bench.cells + 1, .count = 1 };
    kernel_scale(queue, bench.cells + 1, bench.cells, 3, 1);
    kernel_sgd(queue, &sgd, &span);
    sgd.rate = 100;  // and so are the arguments of kernels
    span.count = 1000;
    const uint64_t given_ns = clock_now_ns();
    event_record(event, queue);
    queue_download(queue, &host, bench.cells, sizeof host);
    assert_false(event_done(event) || queue_is_done(queue));
    open_gate(&gate);
    assert_good(queue_wait(queue, &bench.error), bench.error);
    assert_true(event_done(event) && queue_is_done(queue) && event_time_ns(event) >= given_ns);
    assert_true(host == -2);
    event_free(event);
    bench_close(&bench);
}

static void who_waits_for_an_event_waits_for_what_was_recorded_before(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    struct gate gate = GATE_SHUT;
    struct event *event = new_event(&bench);
    queue_wait_event(bench.queues[1], event);  // never recorded: it has come
    event_record(event, bench.queues[0]);
    queue_wait_event(bench.queues[1], event);
    shut(bench.queues[0], &gate);
    event_record(event, bench.queues[0]);
    assert_good(queue_wait(bench.queues[1], &bench.error), bench.error);
    queue_wait_event(bench.queues[2], event);
    assert_false(queue_is_done(bench.queues[2]) || event_done(event));
    open_gate(&gate);
    assert_good(queue_wait(bench.queues[2], &bench.error), bench.error);
    assert_true(event_done(event));
    event_free(event);
    bench_close(&bench);
}

static void what_fails_stays_and_events_come_all_the_same(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    struct queue *bad = bench.queues[0], *good = bench.queues[1];
    struct event *event = new_event(&bench);
    struct gate gate = GATE_SHUT;
    struct error error = { 0 };
    const int32_t outside[] = { 7 };
    int32_t *tokens = (int32_t *)(bench.cells + 8);
    shut(bad, &gate);
    queue_upload(bad, tokens, outside, sizeof outside);
    kernel_embedding(bad, &(struct embedding){ .tokens = tokens, .rows = 1, .sequence = 1, .columns = 1,
                                               .vocabulary = 2 }, (void *)bench.cells, (void *)(bench.cells + 1),
                     (void *)(bench.cells + 2));
    kernel_scale(bad, bench.cells + 3, bench.cells, 0, 1);
    event_record(event, bad);
    queue_wait_event(good, event);
    assert_true(!queue_has_failed(bad) && queue_report(bad, &error));
    open_gate(&gate);
    assert_good(queue_wait(good, &error), error);
    assert_true(event_done(event) && queue_has_failed(bad));
    assert_false(queue_report(bad, &error));
    assert_non_null(strstr(error.text, "vocabulary"));
    struct error again = { 0 };
    queue_fail(bad, "something else");
    assert_false(queue_wait(bad, &again));
    assert_string_equal(again.text, error.text);
    event_free(event);
    bench_close(&bench);
}

// One step of a computation: a cell becomes another one times a factor.
struct step {
    size_t to, from;
    float factor;
    uint64_t queue;
    struct event *event;
};

static bool must_follow(const struct step *later, const struct step *earlier)
{
    return later->to == earlier->to || later->to == earlier->from || later->from == earlier->to;
}

static void steps_in_many_queues_are_ordered_by_events_alone(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    for (uint64_t trial = 0; trial < test_trials(20, 400); trial++) {
        uint64_t seed = trial;
        float cells[CELLS], got[CELLS];
        struct step steps[WORKS];
        for (size_t i = 0; i < CELLS; i++)
            cells[i] = (float)(i + 1);
        queue_upload(bench.queues[0], bench.cells, cells, sizeof cells);
        assert_good(queue_wait(bench.queues[0], &bench.error), bench.error);
        for (size_t i = 0; i < WORKS; i++) {
            struct step *step = &steps[i];
            *step = (struct step){ random_below(&seed, CELLS), random_below(&seed, CELLS),
                                   0.5f + (float)random_below(&seed, 3) / 2, random_below(&seed, QUEUES),
                                   new_event(&bench) };
            struct queue *queue = bench.queues[step->queue];
            for (size_t j = 0; j < i; j++)
                if (must_follow(step, &steps[j]))
                    queue_wait_event(queue, steps[j].event);
            kernel_scale(queue, bench.cells + step->to, bench.cells + step->from, step->factor, 1);
            event_record(step->event, queue);
            cells[step->to] = cells[step->from] * step->factor;
        }
        for (size_t i = 0; i < WORKS; i++)
            queue_wait_event(bench.queues[0], steps[i].event);
        queue_download(bench.queues[0], got, bench.cells, sizeof got);
        assert_good(queue_wait(bench.queues[0], &bench.error), bench.error);
        if (memcmp(got, cells, sizeof got) != 0)
            fail_msg("trial %llu: not what one after the other gives", (unsigned long long)trial);
        for (size_t i = 0; i < WORKS; i++)
            event_free(steps[i].event);
    }
    bench_close(&bench);
}

static void a_queue_that_is_freed_is_done_first(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    const float one = 1;
    queue_upload(bench.queues[3], bench.cells, &one, sizeof one);
    for (int i = 0; i < 100; i++)
        kernel_scale(bench.queues[3], bench.cells, bench.cells, 1.0625f, 1);
    queue_free(bench.queues[3]);
    float expected = 1;
    for (int i = 0; i < 100; i++)
        expected *= 1.0625f;
    assert_true(bench.cells[0] == expected);
    bench.queues[3] = NULL;
    bench_close(&bench);
}

// --- communicators ------------------------------------------------------------------------

// As a rank that is killed while it makes what its communicator needs: a piece of shared memory, locked and empty.
static void be_killed_while_making(const struct communicator_name *name)
{
    const pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0) {
        const int file = shm_open((const char *)name->bytes, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file >= 0 && flock(file, LOCK_EX) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void await_ready(struct communicator *communicator, struct error *error)
{
    for (bool ready = false; !ready;)
        assert_good(communicator_is_ready(communicator, &ready, error), *error);
}

static void who_comes_finds_a_communicator_that_was_left_half_made(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    struct communicator_name name;
    struct communicator *ends[2];
    const float sent = 5;
    assert_good(communicator_make_name(bench.device, &name, &bench.error), bench.error);
    be_killed_while_making(&name);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_good(ends[rank] = communicator_open(bench.device, &name, 2, rank, &bench.error), bench.error);
    queue_upload(bench.queues[0], &bench.cells[0], &sent, sizeof sent);
    for (uint32_t rank = 0; rank < 2; rank++) {
        await_ready(ends[rank], &bench.error);
        const struct message_end end = { rank == 0, 1 - rank, &bench.cells[rank], sizeof sent };
        communicator_exchange(ends[rank], bench.queues[rank], &end, 1);
    }
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_good(queue_wait(bench.queues[rank], &bench.error), bench.error);
    assert_true(bench.cells[1] == sent);
    for (uint32_t rank = 0; rank < 2; rank++)
        communicator_close(ends[rank]);
    assert_int_equal(shm_open((const char *)name.bytes, O_RDWR, 0), -1);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_does_later_what_it_was_given_in_order),
        cmocka_unit_test(who_waits_for_an_event_waits_for_what_was_recorded_before),
        cmocka_unit_test(what_fails_stays_and_events_come_all_the_same),
        cmocka_unit_test(steps_in_many_queues_are_ordered_by_events_alone),
        cmocka_unit_test(a_queue_that_is_freed_is_done_first),
        cmocka_unit_test(who_comes_finds_a_communicator_that_was_left_half_made),
    };
    return cmocka_run_group_tests_name("queues that run ahead", tests, NULL, NULL);
}
