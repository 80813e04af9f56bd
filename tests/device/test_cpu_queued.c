// Queues that run ahead: what must hold of them, and of "cpu:queued" as the one of
// them that every machine has.
#include "device/communicator.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/random.h"
#include "device/kernels.h"
#include "device/shared_memory.h"
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

static void who_waits_for_a_while_is_woken_and_takes_no_core(void **state)
{
    (void)state;
    struct bench bench = bench_open();
    struct gate gate = GATE_SHUT;
    shut(bench.queues[0], &gate);
    const uint64_t begun_ns = clock_now_ns(), used_ns = clock_thread_cpu_ns();
    queue_wait_for(bench.queues[0], 100000000);
    const uint64_t waited_ns = clock_now_ns() - begun_ns;
    assert_true(waited_ns >= 100000000 && !queue_is_done(bench.queues[0]));
    assert_in_range(clock_thread_cpu_ns() - used_ns, 0, waited_ns / 2);
    open_gate(&gate);
    queue_wait_for(bench.queues[0], UINT64_MAX);  // which only a wake-up ends
    assert_true(queue_is_done(bench.queues[0]));
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

// What the first end takes over, or the device closes.
static void a_communicator_leaves_nothing_open(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct communicator_name name;
    struct shared_memory_name memory;
    for (int opened = 0; opened < 2; opened++) {
        struct device *device = device_open("cpu:queued", &error);
        assert_good(device && communicator_make_name(device, &name, &error), error);
        if (opened) {
            struct communicator *ends[] = { communicator_open(device, &name, 2, 0, &error),
                                            communicator_open(device, &name, 2, 1, &error) };
            assert_good(ends[0] && ends[1], error);
            communicator_close(ends[0]);
            communicator_close(ends[1]);
        }
        device_close(device);
        memcpy(&memory, name.bytes, sizeof memory);
        assert_int_equal(fcntl(memory.file, F_GETFD), -1);
    }
}

static void whose_communicator_is_gone_is_told_so(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct communicator_name name;
    bool ready;
    struct device *device = device_open("cpu:queued", &error);
    assert_good(device && communicator_make_name(device, &name, &error), error);
    device_close(device);
    assert_good(device = device_open("cpu:queued", &error), error);
    struct communicator *end = communicator_open(device, &name, 2, 1, &error);
    assert_good(end, error);
    assert_false(communicator_is_ready(end, &ready, &error));
    assert_non_null(strstr(error.text, "no memory to share"));
    assert_true(communicator_abort(end, 0));
    communicator_close(end);
    device_close(device);
}

enum { SENT_BYTES = 300000 };

// Rank 0 sends to rank 1, again and again, each a process; what they and the test tell each other.
struct stopping {
    struct communicator_name name;
    _Atomic bool is_named, gives_up;
    _Atomic uint64_t rounds;  // of rank 0
};

// A rank that sends or receives until it is told to give up. Its exit status: whether it could.
static void be_end(struct stopping *stopping, uint32_t rank)
{
    struct error error = { 0 }, failure = { 0 };
    struct device *device = device_open("cpu:queued", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    void *data = queue ? device_allocate(device, SENT_BYTES, &error) : NULL;
    if (data && rank == 0)
        atomic_store(&stopping->is_named, communicator_make_name(device, &stopping->name, &error));
    while (!atomic_load(&stopping->is_named))
        usleep(100);
    struct communicator *end = data ? communicator_open(device, &stopping->name, 2, rank, &error) : NULL;
    const struct message_end message = { .is_send = rank == 0, .peer = 1 - rank, .data = data, .bytes = SENT_BYTES };
    bool good = end != NULL, ready = false;
    while (good && !atomic_load(&stopping->gives_up)) {
        good = communicator_is_ready(end, &ready, &error) || atomic_load(&stopping->gives_up);
        if (good && ready && queue_is_done(queue)) {
            communicator_exchange(end, queue, &message, 1);
            atomic_fetch_add(&stopping->rounds, rank == 0);
        }
    }
    good = good && communicator_abort(end, 0) && !communicator_is_ready(end, &ready, &failure);
    if (queue)
        queue_wait(queue, &failure);  // in vain, but not for ever
    communicator_close(end);
    queue_free(queue);
    if (data)
        device_release(device, data);
    device_close(device);
    _exit(good ? 0 : 1);
}

// Whether it ends, and well, within a time that no machine is too busy for.
static bool ends_well(pid_t process)
{
    const uint64_t until_ns = clock_now_ns() + 60 * (uint64_t)1000000000;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(process, &status, WNOHANG)) == 0 && clock_now_ns() < until_ns)
        usleep(1000);
    if (ended == process)
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
    return false;
}

static void who_is_stopped_in_an_exchange_holds_nobody_up(void **state)
{
    (void)state;
    struct stopping *stopping = mmap(NULL, sizeof *stopping, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(stopping != MAP_FAILED);
    for (uint64_t trial = 0; trial < test_trials(20, 500); trial++) {
        uint64_t seed = trial;
        const uint64_t stopped = random_below(&seed, 2);
        pid_t ends[2];
        memset(stopping, 0, sizeof *stopping);
        fflush(NULL);
        for (uint32_t rank = 0; rank < 2; rank++) {
            ends[rank] = fork();
            assert_true(ends[rank] >= 0);
            if (ends[rank] == 0)
                be_end(stopping, rank);
        }
        while (atomic_load(&stopping->rounds) < 2)
            usleep(100);
        usleep((useconds_t)random_below(&seed, 3000));
        kill(ends[stopped], SIGSTOP);
        atomic_store(&stopping->gives_up, true);
        const bool good = ends_well(ends[1 - stopped]);
        kill(ends[stopped], SIGCONT);  // and who was stopped ends, too, once it goes on
        if (!good || !ends_well(ends[stopped]))
            fail_msg("trial %llu: rank %llu was stopped, and %s does not end", (unsigned long long)trial,
                     (unsigned long long)stopped, good ? "does not go on, or" : "the other");
    }
    munmap(stopping, sizeof *stopping);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_does_later_what_it_was_given_in_order),
        cmocka_unit_test(who_waits_for_a_while_is_woken_and_takes_no_core),
        cmocka_unit_test(who_waits_for_an_event_waits_for_what_was_recorded_before),
        cmocka_unit_test(what_fails_stays_and_events_come_all_the_same),
        cmocka_unit_test(steps_in_many_queues_are_ordered_by_events_alone),
        cmocka_unit_test(a_queue_that_is_freed_is_done_first),
        cmocka_unit_test(a_communicator_leaves_nothing_open),
        cmocka_unit_test(whose_communicator_is_gone_is_told_so),
        cmocka_unit_test(who_is_stopped_in_an_exchange_holds_nobody_up),
    };
    return cmocka_run_group_tests_name("queues that run ahead", tests, NULL, NULL);
}
