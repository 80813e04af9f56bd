// Every call of CUDA's libraries that device/cuda makes fails once, the n-th time it is made: what comes of it is a
// sentence, or the bits that come without, and nothing is left. What is given is of all kinds: kernels of our own,
// products, attention, copies both ways, events between queues, captures, messages between two GPUs.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "device/kernels.h"
#include "tests/test.h"

enum { ROWS = 32, COLUMNS = 64, COUNT = ROWS * COLUMNS, PASSES = 3, BUFFERS = 8, WORDS = 61 };

static struct {
    void (*let_fail)(const char *function, uint64_t good);
    uint64_t (*calls)(const char *function);
    const char *(*function)(size_t i);
    size_t (*used)(void);
} played;

static void find(void *plugin, const char *name, void *into)
{
    void *found = dlsym(plugin, name);
    assert_non_null(found);
    memcpy(into, &found, sizeof found);
}

// --- what is done ------------------------------------------------------------------------

struct bench {
    struct device *device;
    struct queue *queue, *other;
    struct event *event;
    struct recorded *recorded;
    void *buffers[BUFFERS], *workspace;
    float *host;  // pinned
    float numbers[COUNT], loss;
    bool is_good;
    struct error error;
};

static const struct attention attention = { .batch = 1, .sequence = ROWS, .heads = 2, .size = 16 };

static bool bench_open(struct bench *bench, const char *name)
{
    struct attention_bytes bytes;
    struct error *error = &bench->error;
    if (!(bench->device = device_open(name, error)) || !(bench->queue = queue_create(bench->device, error))
        || !(bench->other = queue_create(bench->device, error)) || !(bench->event = event_create(bench->device, error))
        || !(bench->recorded = recorded_create(bench->device, error))
        || !attention_bytes(bench->device, &attention, &bytes, error)
        || !(bench->workspace = device_allocate(bench->device, bytes.backward + bytes.forward, error))
        || !(bench->host = device_allocate_host(bench->device, COUNT * sizeof(float), error)))
        return false;
    for (int i = 0; i < BUFFERS; i++)
        if (!(bench->buffers[i] = device_allocate(bench->device, 2 * COUNT * sizeof(float), error)))
            return false;
    return true;
}

static void bench_close(struct bench *bench)
{
    queue_free(bench->queue);
    queue_free(bench->other);
    event_free(bench->event);
    recorded_free(bench->recorded);
    for (int i = 0; bench->device && i < BUFFERS; i++)
        device_release(bench->device, bench->buffers[i]);
    if (bench->device) {
        device_release(bench->device, bench->workspace);
        device_release(bench->device, bench->host);
    }
    device_close(bench->device);
}

static void compute(struct bench *bench)
{
    struct values *const a = bench->buffers[0], *const b = bench->buffers[1], *const c = bench->buffers[2];
    const struct layer_norm norm = { .in = a, .gain = b, .offset = b, .rows = ROWS, .columns = COLUMNS };
    float *const kept = bench->buffers[3], *const sums = bench->buffers[4];
    queue_record_begin(bench->queue, bench->recorded);
    kernel_layer_norm(bench->queue, &norm, c, kept, kept + ROWS);
    kernel_matmul(bench->queue, &(struct matmul){ .m = ROWS, .n = COLUMNS, .k = COLUMNS, .a = c, .b = b, .bias = a,
                                                  .c = bench->buffers[5], .before_gelu = bench->buffers[6] });
    kernel_sum_columns(bench->queue, sums, bench->buffers[5], ROWS, COLUMNS);
    queue_record_end(bench->queue);
    kernel_attention(bench->queue, &attention, c, kept, bench->buffers[5], bench->workspace);
    kernel_attention_backward(bench->queue, &attention, bench->buffers[6], a, c, kept, bench->buffers[5],
                              bench->workspace);
}

// The loss of rows of words, on another queue behind what the first has made.
static void lose(struct bench *bench, const int32_t *targets)
{
    event_record(bench->event, bench->queue);
    queue_wait_event(bench->other, bench->event);
    queue_upload(bench->other, bench->buffers[7], targets, ROWS * sizeof *targets);
    const struct cross_entropy loss = { .logits = bench->buffers[6], .targets = bench->buffers[7], .rows = ROWS,
                                        .columns = WORDS, .stride = COLUMNS, .scale = 1 };
    kernel_cross_entropy(bench->other, &loss, (float *)bench->buffers[3] + 256, bench->buffers[3]);
    queue_download(bench->other, &bench->loss, (float *)bench->buffers[3] + 256, sizeof bench->loss);
    queue_transfer(bench->other, bench->host, bench->buffers[4], COLUMNS * sizeof(float));
}

// What is left of it in `digest`. False with a sentence.
static bool run(const char *device, char digest[HASH_SIZE], struct error *error)
{
    struct bench bench = { .is_good = true };
    int32_t targets[ROWS];
    bool good = bench_open(&bench, device);
    for (int i = 0; i < ROWS; i++)
        targets[i] = i * 7 % WORDS;
    for (int pass = 0; good && pass < PASSES; pass++) {
        for (int i = 0; pass == 0 && i < BUFFERS; i++) {
            queue_zero(bench.queue, bench.buffers[i], 2 * COUNT * sizeof(float));
            kernel_fill_normal(bench.queue, bench.buffers[i], 1, (uint64_t)i, 0, COUNT);
        }
        compute(&bench);
        lose(&bench, targets);
        queue_download(bench.queue, bench.numbers, bench.buffers[6], COUNT * sizeof(uint16_t));
        good = queue_wait(bench.queue, &bench.error) && queue_wait(bench.other, &bench.error);
        if (good && pass == 0)
            recorded_prepare(bench.recorded, bench.queue);
        if (good)
            event_time_ns(bench.event);
    }
    if (good) {
        char parts[2][HASH_SIZE];
        hash_bytes(bench.numbers, COUNT * sizeof(uint16_t), parts[0]);
        hash_bytes(bench.host, COLUMNS * sizeof(float), parts[1]);
        snprintf(digest, HASH_SIZE, "%.8s%.8s%a", parts[0], parts[1], (double)bench.loss);
    }
    bench_close(&bench);
    *error = bench.error;
    return good;
}

// --- failing ---------------------------------------------------------------------------------

static bool gives_back(const char *function)
{
    return strstr(function, "Free") || strstr(function, "Destroy");
}

static void try_function(const char *device, const char *function, uint64_t calls, const char *usual)
{
    // The first ones, the last one, and some in between.
    const uint64_t dense = test_trials(3, 400);
    for (uint64_t n = 0; n < calls; n += n < dense ? 1 : 1 + calls / dense) {
        char digest[HASH_SIZE] = "";
        struct error error = { 0 };
        const size_t used = played.used();
        played.let_fail(function, n);
        const bool good = run(device, digest, &error);
        played.let_fail(NULL, 0);
        if (good && strcmp(digest, usual) != 0)
            fail_msg("%s: %s fails at call %llu of %llu, and other numbers come without a word", device, function,
                     (unsigned long long)n + 1, (unsigned long long)calls);
        if (!good && !error.text[0])
            fail_msg("%s: %s fails at call %llu, and nothing is said", device, function, (unsigned long long)n + 1);
        if (played.used() != used && !gives_back(function))
            fail_msg("%s: %s fails at call %llu, and %zu bytes are left", device, function, (unsigned long long)n + 1,
                     played.used() - used);
    }
}

static void each_call_fails_once(void **state)
{
    const char *device = *state;
    struct error error = { 0 };
    char usual[HASH_SIZE] = "", again[HASH_SIZE] = "";
    assert_good(run(device, usual, &error), error);
    played.let_fail(NULL, 0);
    assert_good(run(device, again, &error), error);
    assert_string_equal(again, usual);
    uint64_t calls[128];
    for (size_t i = 0; played.function(i); i++)
        calls[i] = played.calls(played.function(i));
    for (size_t i = 0; played.function(i); i++)
        try_function(device, played.function(i), calls[i], usual);
}

int main(void)
{
    char path[1024];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    path[length > 0 ? length : 0] = '\0';
    *strrchr(path, '/') = '\0';
    setenv("WEIR_PLUGINS", path, 1);
    strcat(path, "/weir-cuda.so");
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    find(plugin, "weir_played_fail", &played.let_fail);
    find(plugin, "weir_played_calls", &played.calls);
    find(plugin, "weir_played_function", &played.function);
    find(plugin, "weir_played_used", &played.used);
    const struct CMUnitTest tests[] = {
        { .name = "each_call_fails_once, fp32", .test_func = each_call_fails_once, .initial_state = "cuda" },
        { .name = "each_call_fails_once, bf16", .test_func = each_call_fails_once, .initial_state = "cuda:bf16" },
        { .name = "each_call_fails_once, bf16 recorded", .test_func = each_call_fails_once,
          .initial_state = "cuda:bf16,graphs" },
    };
    return cmocka_run_group_tests_name("played_calls", tests, NULL, NULL);
}
