// The maker of "cpu" devices. Everything is done before a call returns, on the caller's thread. Queues therefore have
// no state, and an event has only its time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/cpu_queued.h"
#include "device/plugin.h"

static const struct instruction_set {
    const char *name;
    const struct kernel_functions *kernels, *bf16, *fp16;
} instruction_sets[] = {  // best first
#if defined(__x86_64__)
    { "avx512", &cpu_kernels_avx512, &cpu_kernels_bf16_avx512, &cpu_kernels_fp16_avx512 },
    { "avx2", &cpu_kernels_avx2, &cpu_kernels_bf16_avx2, &cpu_kernels_fp16_avx2 },
#endif
    { "baseline", &cpu_kernels_baseline, &cpu_kernels_bf16_baseline, &cpu_kernels_fp16_baseline },
};

static bool processor_has(const struct instruction_set *set)
{
#if defined(__x86_64__)
    if (set->kernels == &cpu_kernels_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (set->kernels == &cpu_kernels_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return set->kernels == &cpu_kernels_baseline;
}

// The words after "cpu:", parsed.
struct wishes {
    const struct instruction_set *set;  // NULL: the best
    bool queued, bf16, fp16, graphs, mpi;
    uint64_t link_rate;
};

static bool is_word(const char *word, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(word, wanted, length) == 0;
}

static const char link_word[] = "link=";

// Reads the rate after "link=".
static bool take_rate(struct wishes *wishes, const char *text, size_t length, struct error *error)
{
    char rate[NUMBER_SIZE];
    struct error reason = { 0 };
    snprintf(rate, sizeof rate, "%.*s", (int)length, text);
    if (length < sizeof rate && rate_parse(rate, &wishes->link_rate, &reason) && wishes->link_rate > 0)
        return true;
    return error_set(error, "there is no device cpu:%s%.*s (behind \"link=\" stands the rate to and from its host,"
                     " such as cpu:link=2GB/s)", link_word, (int)length, text);
}

static bool take_word(struct wishes *wishes, const char *word, size_t length, struct error *error)
{
    static const char *const names[] = { "queued", "bf16", "fp16", "graphs", "mpi" };
    bool *const flags[] = { &wishes->queued, &wishes->bf16, &wishes->fp16, &wishes->graphs, &wishes->mpi };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_word(word, length, names[i]))
            return *flags[i] = true;
    if (strncmp(word, link_word, strlen(link_word)) == 0)
        return take_rate(wishes, word + strlen(link_word), length - strlen(link_word), error);
    for (size_t i = 0; i < sizeof instruction_sets / sizeof instruction_sets[0]; i++) {
        const struct instruction_set *set = &instruction_sets[i];
        if (!is_word(word, length, set->name))
            continue;
        wishes->set = set;
        return processor_has(set)
            || error_set(error, "this processor has no %s (plain cpu takes the best it has)", set->name);
    }
    return error_set(error, "there is no device cpu:%.*s (cpu:baseline, cpu:avx2, cpu:avx512, cpu:bf16, cpu:fp16,"
                     " cpu:queued, cpu:queued,mpi, cpu:queued,graphs and cpu:link=2GB/s are)", (int)length, word);
}

// Reads the words, which have commas between them.
static bool read_wishes(const char *detail, struct wishes *wishes, struct error *error)
{
    *wishes = (struct wishes){ 0 };
    for (const char *word = detail; detail[0] && word; ) {
        const size_t length = strcspn(word, ",");
        if (!take_word(wishes, word, length, error))
            return false;
        word = word[length] ? word + length + 1 : NULL;
    }
    for (size_t i = 0; !wishes->set; i++)
        if (processor_has(&instruction_sets[i]))
            wishes->set = &instruction_sets[i];
    if (wishes->mpi && !wishes->queued)
        return error_set(error, "device cpu:%s does each thing at once, and waits for no message (cpu:queued,mpi sends "
                         "and receives by MPI)", detail);
    if (wishes->bf16 && wishes->fp16)
        return error_set(error, "there is no device cpu:%s (a device has one of bf16 and fp16)", detail);
    return wishes->queued || !wishes->graphs
        || error_set(error,
                     "device cpu:%s has nothing to replay: it does each thing at once (cpu:queued,graphs records)",
                     detail);
}

// The processor's name, as the system reports it.
static void processor_name(char *name, size_t size)
{
    snprintf(name, size, "a processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strstr(line, ": ") : NULL;
        if (!colon)
            continue;
        snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(file);
}

// Takes the communicators of weir-mpi.so, which reach other machines.
static bool take_mpi(struct device *device, struct error *error)
{
    const struct plugin *plugin = plugin_open_mpi(error);
    device->communicators = plugin ? plugin->communicators : NULL;
    return plugin != NULL;
}

static bool cpu_open(struct device *device, const char *detail, struct error *error)
{
    struct wishes wishes;
    if (!read_wishes(detail, &wishes, error) || (wishes.mpi && !take_mpi(device, error)))
        return false;
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return error_no_memory(error, "a device");
    char name[sizeof device->description - 48];
    processor_name(name, sizeof name);
    device->precision = wishes.fp16 ? PRECISION_FP16 : wishes.bf16 ? PRECISION_BF16 : PRECISION_FP32;
    device->has_pictures = true;
    const bool is_half = device->precision != PRECISION_FP32;
    const char *half = is_half ? precision_name(device->precision) : "";
    cpu->bf16_by = wishes.bf16 && wishes.set == &instruction_sets[0] ? cpu_bf16_by() : BF16_BY_FP32;
    static const char *const units[] = { " by fp32", " by avx512_bf16", " by AMX" };
    const char *by = is_half ? units[cpu->bf16_by] : "";
    snprintf(device->description, sizeof device->description, "%s, %s%s%s%s%s%s%s", name, wishes.set->name,
             is_half ? ", " : "", half, by, wishes.queued ? ", queued" : "", wishes.graphs ? ", graphs" : "",
             wishes.mpi ? ", mpi" : "");
    snprintf(device->host, sizeof device->host, "cpu:%s%s%s", wishes.set->name, is_half ? "," : "", half);
    cpu->float_kernels = wishes.set->kernels;
    cpu->link_rate = wishes.link_rate;
    cpu->kernels = wishes.bf16 ? wishes.set->bf16 : wishes.fp16 ? wishes.set->fp16 : cpu->float_kernels;
    device->own = cpu;
    device->kernels = wishes.queued ? &cpu_queued_kernels : cpu->kernels;
    device->runs_ahead = wishes.queued;
    device->records = wishes.graphs;
    if (wishes.queued)
        device->functions = &cpu_queued_functions;
    return true;
}

static bool cpu_open_queue(struct queue *queue, struct error *error)
{
    (void)queue, (void)error;
    return true;
}

static void cpu_queue_nothing(struct queue *queue)
{
    (void)queue;
}

static bool cpu_queue_is_done(const struct queue *queue)
{
    (void)queue;
    return true;
}

static bool cpu_open_event(struct event *event, struct error *error)
{
    (void)event, (void)error;
    return true;
}

static void cpu_close_event(struct event *event)
{
    (void)event;
}

static void cpu_record(struct event *event, struct queue *queue)
{
    (void)queue;
    atomic_store_explicit(&event->time_ns, clock_now_ns(), memory_order_relaxed);
}

static void cpu_wait_event(struct queue *queue, struct event *event)
{
    (void)queue, (void)event;
}

static bool cpu_event_done(const struct event *event)
{
    (void)event;
    return true;
}

static void cpu_call(struct queue *queue, queue_function *function, const void *arguments, size_t bytes)
{
    (void)bytes;
    function(queue, arguments);
}

const struct device_functions cpu_functions = {
    .open = cpu_open,
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .allocate_host = cpu_allocate,
    .release_host = cpu_release,
    .open_queue = cpu_open_queue,
    .close_queue = cpu_queue_nothing,
    .wait = cpu_queue_nothing,
    .is_done = cpu_queue_is_done,
    .open_event = cpu_open_event,
    .close_event = cpu_close_event,
    .record = cpu_record,
    .wait_event = cpu_wait_event,
    .event_done = cpu_event_done,
    .event_time = event_kept_time,
    .zero = cpu_zero,
    .copy = cpu_copy,
    .upload = cpu_copy,
    .download = cpu_copy,
    .transfer = cpu_transfer,
    .call = cpu_call,
    .call_host = cpu_call,
    .convolution_bytes = cpu_convolution_bytes,
};
