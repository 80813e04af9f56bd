// Random programs for several queues of the played GPU, against the same program done at once on the host. Each thing
// that touches a buffer waits for what has touched it on other queues, and for nothing more; so does whoever looks at
// what was downloaded: it waits for one event, behind which the download stands, on its own queue or by another's wait.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/kernels.h"
#include "tests/test.h"

enum { QUEUES = 3, BUFFERS = 5, PINNED = 2, MOST = 48 << 10, STEPS = 60, EVENTS = STEPS + QUEUES };

// Numbers in memory that queues touch, and what they must be.
struct buffer {
    float *at, *want;
    bool is_pinned;
    struct event *written;        // by whoever wrote last
    int writer;                   // its queue; -1 nobody
    struct event *read[QUEUES];   // since then
};

struct bench {
    struct device *device;
    struct queue *queues[QUEUES];
    struct buffer buffers[BUFFERS + PINNED];
    struct event *events[EVENTS];
    int event_count;
    float *downloaded[STEPS], *must_be[STEPS];
    struct event *behind[STEPS];  // of a download
    int download_count;
    uint64_t seed;
};

static size_t draw(struct bench *bench, size_t below)
{
    return (size_t)random_below(&bench->seed, below);
}

static void bench_open(struct bench *bench, const char *device, uint64_t seed)
{
    struct error error = { 0 };
    *bench = (struct bench){ .device = device_open(device, &error), .seed = seed };
    assert_good(bench->device, error);
    for (int q = 0; q < QUEUES; q++)
        assert_good(bench->queues[q] = queue_create(bench->device, &error), error);
    for (int i = 0; i < EVENTS; i++)
        assert_good(bench->events[i] = event_create(bench->device, &error), error);
    for (int b = 0; b < BUFFERS + PINNED; b++) {
        struct buffer *buffer = &bench->buffers[b];
        buffer->is_pinned = b >= BUFFERS;
        buffer->writer = -1;
        buffer->want = calloc(MOST, sizeof(float));
        buffer->at = (buffer->is_pinned ? device_allocate_host : device_allocate)(bench->device, MOST * sizeof(float), &error);
        assert_good(buffer->at, error);
        if (buffer->is_pinned)
            memset(buffer->at, 0, MOST * sizeof(float));
        else
            queue_zero(bench->queues[0], buffer->at, MOST * sizeof(float));
    }
    assert_good(queue_wait(bench->queues[0], &error), error);
}

static void bench_close(struct bench *bench)
{
    for (int q = 0; q < QUEUES; q++)
        queue_free(bench->queues[q]);
    for (int i = 0; i < EVENTS; i++)
        event_free(bench->events[i]);
    for (int b = 0; b < BUFFERS + PINNED; b++) {
        device_release(bench->device, bench->buffers[b].at);
        free(bench->buffers[b].want);
    }
    for (int i = 0; i < bench->download_count; i++) {
        free(bench->downloaded[i]);
        free(bench->must_be[i]);
    }
    device_close(bench->device);
}

// --- who waits for whom ---------------------------------------------------------------------

static void wait_to_read(struct bench *bench, int queue, const struct buffer *buffer)
{
    if (buffer->writer >= 0 && buffer->writer != queue)
        queue_wait_event(bench->queues[queue], buffer->written);
}

static void wait_to_write(struct bench *bench, int queue, const struct buffer *buffer)
{
    wait_to_read(bench, queue, buffer);
    for (int q = 0; q < QUEUES; q++)
        if (q != queue && buffer->read[q])
            queue_wait_event(bench->queues[queue], buffer->read[q]);
}

static struct event *mark(struct bench *bench, int queue)
{
    struct event *event = bench->events[bench->event_count++];
    event_record(event, bench->queues[queue]);
    return event;
}

static void has_written(struct buffer *buffer, int queue, struct event *event)
{
    memset(buffer->read, 0, sizeof buffer->read);
    buffer->written = event;
    buffer->writer = queue;
}

// --- steps ------------------------------------------------------------------------------------

static void upload(struct bench *bench, int queue, struct buffer *to, size_t first, size_t count)
{
    float *numbers = malloc((count + 1) * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = to->want[first + i] = (float)draw(bench, 1000);
    queue_upload(bench->queues[queue], to->at + first, numbers, count * sizeof *numbers);
    memset(numbers, 0xff, count * sizeof *numbers);  // it was a copy
    free(numbers);
}

static void download(struct bench *bench, int queue, const struct buffer *from, struct event **behind)
{
    const int i = bench->download_count++;
    bench->downloaded[i] = malloc(MOST * sizeof(float));
    bench->must_be[i] = malloc(MOST * sizeof(float));
    assert_true(bench->downloaded[i] && bench->must_be[i]);
    memcpy(bench->must_be[i], from->want, MOST * sizeof(float));
    queue_download(bench->queues[queue], bench->downloaded[i], from->at, MOST * sizeof(float));
    bench->behind[i] = *behind = mark(bench, queue);
}

static void add(struct bench *bench, int queue, struct buffer *to, const struct buffer *from, size_t count)
{
    kernel_add_floats(bench->queues[queue], to->at, to->at, from->at, count);
    for (size_t i = 0; i < count; i++)
        to->want[i] += from->want[i];
}

static void step(struct bench *bench)
{
    const int queue = (int)draw(bench, QUEUES);
    struct buffer *to = &bench->buffers[draw(bench, BUFFERS)], *from = &bench->buffers[draw(bench, BUFFERS)];
    struct buffer *pinned = &bench->buffers[BUFFERS + draw(bench, PINNED)];
    const size_t first = draw(bench, MOST), count = draw(bench, 2) ? MOST - first : draw(bench, MOST - first);
    struct event *event = NULL;
    switch (draw(bench, 6)) {
    case 0:
        wait_to_write(bench, queue, to);
        upload(bench, queue, to, first, count);
        break;
    case 1:
        wait_to_read(bench, queue, to);
        download(bench, queue, to, &event);
        to->read[queue] = event;
        return;
    case 2:
        wait_to_write(bench, queue, to);
        wait_to_read(bench, queue, from);
        if (to != from)
            add(bench, queue, to, from, 1 + draw(bench, 2000));
        break;
    case 3:  // out
        to = pinned;
        wait_to_write(bench, queue, to);
        wait_to_read(bench, queue, from);
        queue_transfer(bench->queues[queue], to->at, from->at, MOST * sizeof(float));
        memcpy(to->want, from->want, MOST * sizeof(float));
        break;
    case 4:  // and in
        from = pinned;
        wait_to_write(bench, queue, to);
        wait_to_read(bench, queue, from);
        queue_transfer(bench->queues[queue], to->at, from->at, MOST * sizeof(float));
        memcpy(to->want, from->want, MOST * sizeof(float));
        break;
    default:
        wait_to_write(bench, queue, to);
        queue_zero(bench->queues[queue], to->at + first, count * sizeof(float));
        memset(to->want + first, 0, count * sizeof(float));
        break;
    }
    event = mark(bench, queue);
    if (from != to)
        from->read[queue] = event;
    has_written(to, queue, event);
}

// --- looking -----------------------------------------------------------------------------------

static void must_be(const float *got, const float *want, const char *what, uint64_t trial)
{
    for (size_t i = 0; i < MOST; i++)
        if (got[i] != want[i])
            fail_msg("trial %llu: number %zu of %s is %g, should be %g", (unsigned long long)trial, i, what,
                     (double)got[i], (double)want[i]);
}

static void await(const struct event *event)
{
    while (!event_done(event))
        usleep(50);
}

// A download is there once the event behind it has come, or one of another queue that has waited for that.
static void look_at_downloads(struct bench *bench, uint64_t trial)
{
    for (int i = 0; i < bench->download_count; i++) {
        struct event *event = bench->behind[i];
        if (draw(bench, 2) && bench->event_count < EVENTS) {
            const int other = (int)draw(bench, QUEUES);
            queue_wait_event(bench->queues[other], event);
            event = mark(bench, other);
        }
        await(event);
        must_be(bench->downloaded[i], bench->must_be[i], "a download", trial);
    }
}

static void random_programs_do_what_is_asked(void **state)
{
    const char *device = *state;
    for (uint64_t trial = 0; trial < test_trials(12, 1000); trial++) {
        struct bench bench;
        struct error error = { 0 };
        bench_open(&bench, device, trial);
        for (int i = 0; i < STEPS; i++)
            step(&bench);
        look_at_downloads(&bench, trial);
        for (int q = 0; q < QUEUES; q++)
            assert_good(queue_wait(bench.queues[q], &error), error);
        for (int b = BUFFERS; b < BUFFERS + PINNED; b++)
            must_be(bench.buffers[b].at, bench.buffers[b].want, "pinned memory", trial);
        for (int b = 0; b < BUFFERS; b++) {
            float *numbers = malloc(MOST * sizeof *numbers);
            assert_non_null(numbers);
            queue_download(bench.queues[0], numbers, bench.buffers[b].at, MOST * sizeof *numbers);
            assert_good(queue_wait(bench.queues[0], &error), error);
            must_be(numbers, bench.buffers[b].want, "a buffer", trial);
            free(numbers);
        }
        bench_close(&bench);
    }
}

// More at a time than there are slots for, and all of it kept.
static void much_is_moved_at_a_time(void **state)
{
    const char *device = *state;
    enum { COUNT = 6 << 20 };  // 24 MiB
    struct error error = { 0 };
    struct device *own = device_open(device, &error);
    assert_good(own, error);
    struct queue *queue = queue_create(own, &error);
    float *memory = device_allocate(own, COUNT * sizeof(float), &error);
    float *numbers = malloc(COUNT * sizeof *numbers), *back = malloc(COUNT * sizeof *back);
    assert_true(queue && memory && numbers && back);
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    queue_upload(queue, memory, numbers, COUNT * sizeof *numbers);
    queue_download(queue, back, memory, COUNT * sizeof *numbers);
    assert_good(queue_wait(queue, &error), error);
    assert_memory_equal(numbers, back, COUNT * sizeof *numbers);
    queue_free(queue);
    device_release(own, memory);
    device_close(own);
    free(numbers);
    free(back);
}

// The plug-in lies beside the program, or in the folder that is named: one with a fault in it.
int main(int count, char **arguments)
{
    char path[1024];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    *strrchr(path, '/') = '\0';
    setenv("WEIR_PLUGINS", count > 1 ? arguments[1] : path, 1);
    const struct CMUnitTest tests[] = {
        { .name = "random_programs_do_what_is_asked", .test_func = random_programs_do_what_is_asked,
          .initial_state = "cuda" },
        { .name = "random_programs_do_what_is_asked, registered memory", .test_func = random_programs_do_what_is_asked,
          .initial_state = "cuda:registered" },
        { .name = "much_is_moved_at_a_time", .test_func = much_is_moved_at_a_time, .initial_state = "cuda" },
    };
    return cmocka_run_group_tests_name("played_queues", tests, NULL, NULL);
}
