#include "profiler/measure.h"

#include <assert.h>
#include <stdlib.h>

#include "common/ascending.h"
#include "common/clock.h"
#include "profiler/profile_words.h"

enum { LEAST_REPEATS = 20, STEADY = 5, STEADY_PART = 20 }; // 5 in a row within a twentieth

// --- samples --------------------------------------------------------------------

struct spread spread_of(uint64_t *samples, size_t count)
{
    assert(count > 0);
    qsort(samples, count, sizeof samples[0], ascending_u64s);
    return (struct spread){
        .min_ns = samples[0],
        .median_ns = samples[(count + 1) / 2 - 1],
        .p95_ns = samples[(count * 19 + 19) / 20 - 1],
    };
}

// One reading of all clocks.
struct reading {
    uint64_t ns[MEASURE_CLOCKS];
};

// The samples of one time, by each clock.
struct samples {
    uint64_t *ns[MEASURE_CLOCKS];
    size_t count;
};

// A sample whose events have been recorded but not read yet. The i-th has marks 2i and 2i + 1.
struct marked {
    struct samples *samples;
    uint64_t asking_ns;
};

// The state of a measurement. Samples of layer l and phase f are sets[l * PHASES + f]; the last set is that of the
// whole.
struct measuring {
    const struct measured *what;
    const struct measure_options *options;
    struct error *error;
    struct samples *sets;
    uint64_t *memory; // of all samples
    size_t set_count;
    struct marked *marked;  // room for one for each set
    size_t marked_count;
    enum measure_clock clock;
    size_t done, all; // passes, for progress reports
};

static void measuring_clear(struct measuring *measuring)
{
    free(measuring->sets);
    free(measuring->memory);
    free(measuring->marked);
}

static bool measuring_init(struct measuring *measuring, const struct measured *what,
                           const struct measure_options *options, struct error *error)
{
    const size_t sets = what->layer_count * PHASES + 1;
    *measuring = (struct measuring){ .what = what, .options = options, .error = error, .set_count = sets };
    measuring->all = options->repeats + what->layer_count;
    measuring->clock = what->mark ? MEASURE_WALL : options->clock;
    measuring->sets = calloc(sets, sizeof measuring->sets[0]);
    measuring->memory = calloc(sets * MEASURE_CLOCKS, options->repeats * sizeof(uint64_t));
    measuring->marked = calloc(sets, sizeof measuring->marked[0]);
    if (!measuring->sets || !measuring->memory || !measuring->marked)
        return error_no_memory(error, "the samples of a measurement");
    for (size_t i = 0; i < sets; i++)
        for (size_t clock = 0; clock < MEASURE_CLOCKS; clock++)
            measuring->sets[i].ns[clock] = measuring->memory + (i * MEASURE_CLOCKS + clock) * options->repeats;
    return true;
}

static struct samples *samples_at(struct measuring *measuring, size_t layer, enum phase phase)
{
    return &measuring->sets[layer * PHASES + phase];
}

static struct samples *whole_samples(struct measuring *measuring)
{
    return &measuring->sets[measuring->set_count - 1];
}

static void forget_samples(struct measuring *measuring)
{
    for (size_t i = 0; i < measuring->set_count; i++)
        measuring->sets[i].count = 0;
}

static void add_sample(struct samples *samples, const struct reading *from, const struct reading *to)
{
    for (size_t clock = 0; clock < MEASURE_CLOCKS; clock++)
        samples->ns[clock][samples->count] = to->ns[clock] - from->ns[clock];
    samples->count++;
}

static void take_spreads(struct samples *samples, struct spread into[MEASURE_CLOCKS])
{
    for (size_t clock = 0; clock < MEASURE_CLOCKS; clock++)
        into[clock] = spread_of(samples->ns[clock], samples->count);
}

static void show_progress(struct measuring *measuring)
{
    measuring->done++;
    if (measuring->options->progress)
        measuring->options->progress(measuring->options->self, measuring->done, measuring->all);
}

// --- running and timing ------------------------------------------------------------

static struct reading read_clocks(const struct measuring *measuring)
{
    struct reading reading;
    for (size_t clock = 0; clock < MEASURE_CLOCKS; clock++)
        reading.ns[clock] = measuring->options->now_ns(measuring->options->self, (enum measure_clock)clock);
    return reading;
}

static bool run(struct measuring *measuring, size_t layer, enum phase phase)
{
    return measuring->what->run(measuring->what->self, layer, phase, measuring->error)
           || error_at(measuring->error, "layer %zu, %s", layer, phase_words[phase]);
}

static bool wait(struct measuring *measuring)
{
    return measuring->what->wait(measuring->what->self, measuring->error);
}

static bool mark(struct measuring *measuring, size_t number)
{
    return measuring->what->mark(measuring->what->self, number, measuring->error);
}

// A sample is taken between two waits, or between two events.
static bool begin_sample(struct measuring *measuring, struct reading *from)
{
    const bool good = measuring->what->mark ? mark(measuring, 2 * measuring->marked_count) : wait(measuring);
    *from = read_clocks(measuring);
    return good;
}

static bool end_sample(struct measuring *measuring, const struct reading *from, struct samples *samples)
{
    if (!measuring->what->mark && !wait(measuring))
        return false;
    const struct reading to = read_clocks(measuring);
    if (!measuring->what->mark) {
        add_sample(samples, from, &to);
        return true;
    }
    const size_t index = measuring->marked_count++;
    measuring->marked[index] = (struct marked){ samples, to.ns[MEASURE_THREAD_CPU] - from->ns[MEASURE_THREAD_CPU] };
    return mark(measuring, 2 * index + 1);
}

// Gives the device something to do first, while the host requests the timed work.
static bool get_ahead(struct measuring *measuring, size_t layer)
{
    return !measuring->what->mark || run(measuring, layer, PHASE_FORWARD);
}

// Waits for the events that were recorded, and takes the samples.
static bool collect(struct measuring *measuring)
{
    const struct measured *what = measuring->what;
    const struct reading zero = { { 0 } };
    if (measuring->marked_count > 0 && !wait(measuring))
        return false;
    for (size_t i = 0; i < measuring->marked_count; i++) {
        struct reading took;
        took.ns[MEASURE_WALL] = what->mark_ns(what->self, 2 * i + 1) - what->mark_ns(what->self, 2 * i);
        took.ns[MEASURE_THREAD_CPU] = measuring->marked[i].asking_ns;
        add_sample(measuring->marked[i].samples, &zero, &took);
    }
    measuring->marked_count = 0;
    return true;
}

// Without `samples` the layer only runs.
static bool time_layer(struct measuring *measuring, size_t layer, enum phase phase, struct samples *samples)
{
    struct reading from;
    if (!samples)
        return run(measuring, layer, phase);
    return begin_sample(measuring, &from) && run(measuring, layer, phase) && end_sample(measuring, &from, samples);
}

static bool run_forward(struct measuring *measuring, bool timed)
{
    for (size_t layer = 0; layer < measuring->what->layer_count; layer++)
        if (!time_layer(measuring, layer, PHASE_FORWARD, timed ? samples_at(measuring, layer, PHASE_FORWARD) : NULL))
            return false;
    return true;
}

// Runs `count` phases of each layer, from the last layer to the first. Those in `timed` are sampled.
static bool run_backward(struct measuring *measuring, const enum phase *phases, const bool *timed, size_t count)
{
    for (size_t layer = measuring->what->layer_count; layer-- > 0;)
        for (size_t i = 0; i < count; i++)
            if (!time_layer(measuring, layer, phases[i], timed[i] ? samples_at(measuring, layer, phases[i]) : NULL))
                return false;
    return true;
}

static bool time_whole(struct measuring *measuring)
{
    const enum phase backward = PHASE_BACKWARD;
    struct reading from;
    return begin_sample(measuring, &from) && run_forward(measuring, false)
           && run_backward(measuring, &backward, &(const bool){ false }, 1)
           && end_sample(measuring, &from, whole_samples(measuring));
}

// --- steadiness -------------------------------------------------------------------

// The last few times of something. They are steady if they are within 5 %.
struct steadiness {
    uint64_t last[STEADY];
    size_t count;
};

static bool is_steady(struct steadiness *steadiness, uint64_t ns)
{
    uint64_t least = UINT64_MAX, most = 0;
    steadiness->last[steadiness->count++ % STEADY] = ns;
    for (size_t i = 0; i < STEADY; i++) {
        least = steadiness->last[i] < least ? steadiness->last[i] : least;
        most = steadiness->last[i] > most ? steadiness->last[i] : most;
    }
    return steadiness->count >= STEADY && most - least <= least / STEADY_PART;
}

// --- in place ---------------------------------------------------------------------

// The four passes shown in the header.
static bool repeat_in_place(struct measuring *measuring)
{
    static const enum phase fused[] = { PHASE_BACKWARD };
    static const enum phase split[] = { PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT };
    static const enum phase again[] = { PHASE_RECOMPUTE, PHASE_BACKWARD };
    static const bool both[] = { true, true }, first[] = { true, false };
    return get_ahead(measuring, 0) && run_forward(measuring, true) && run_backward(measuring, fused, both, 1)
           && time_whole(measuring) && run_forward(measuring, false) && run_backward(measuring, split, both, 2)
           && run_forward(measuring, false) && run_backward(measuring, again, first, 2) && collect(measuring);
}

static bool warm_up(struct measuring *measuring, struct measurement *into)
{
    struct steadiness steadiness = { .count = 0 };
    const struct samples *whole = whole_samples(measuring);
    // Runs every phase once, since the whole runs no I, W or R.
    if (!repeat_in_place(measuring))
        return false;
    forget_samples(measuring);
    while (!into->settled && into->warm_ups < measuring->options->most_warm_ups) {
        if (!get_ahead(measuring, 0) || !time_whole(measuring) || !collect(measuring))
            return false;
        into->settled = is_steady(&steadiness, whole->ns[measuring->clock][0]);
        into->warm_ups++;
        forget_samples(measuring);
    }
    return true;
}

static bool measure_in_place(struct measuring *measuring, struct measurement *into)
{
    if (!warm_up(measuring, into))
        return false;
    for (uint64_t i = 0; i < measuring->options->repeats; i++) {
        if (!repeat_in_place(measuring))
            return false;
        show_progress(measuring);
    }
    for (size_t layer = 0; layer < into->layer_count; layer++)
        for (size_t phase = 0; phase < PHASES; phase++)
            take_spreads(samples_at(measuring, layer, (enum phase)phase), into->layers[layer].in_place[phase]);
    take_spreads(whole_samples(measuring), into->whole);
    forget_samples(measuring);
    return true;
}

// --- alone ------------------------------------------------------------------------

static const enum phase alone_phases[] = { PHASE_FORWARD, PHASE_BACKWARD, PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT };
enum { ALONE_PHASES = sizeof alone_phases / sizeof alone_phases[0] };

// Runs the phases of one layer. *sum_ns is the sum of their times by the deciding clock.
static bool repeat_alone(struct measuring *measuring, size_t layer, uint64_t *sum_ns)
{
    if (!get_ahead(measuring, layer))
        return false;
    for (size_t i = 0; i < ALONE_PHASES; i++)
        if (!time_layer(measuring, layer, alone_phases[i], samples_at(measuring, layer, alone_phases[i])))
            return false;
    if (!collect(measuring))
        return false;
    *sum_ns = 0;
    for (size_t i = 0; i < ALONE_PHASES; i++) {
        const struct samples *samples = samples_at(measuring, layer, alone_phases[i]);
        *sum_ns += samples->ns[measuring->clock][samples->count - 1];
    }
    return true;
}

static bool measure_alone(struct measuring *measuring, size_t layer, struct measurement *into)
{
    struct steadiness steadiness = { .count = 0 };
    bool settled = false;
    uint64_t sum_ns;
    for (uint64_t i = 0; i < measuring->options->most_warm_ups && !settled; i++) {
        if (!repeat_alone(measuring, layer, &sum_ns))
            return false;
        settled = is_steady(&steadiness, sum_ns);
        forget_samples(measuring);
    }
    into->restless += !settled;
    for (uint64_t i = 0; i < measuring->options->repeats; i++)
        if (!repeat_alone(measuring, layer, &sum_ns))
            return false;
    for (size_t i = 0; i < ALONE_PHASES; i++)
        take_spreads(samples_at(measuring, layer, alone_phases[i]), into->layers[layer].alone[alone_phases[i]]);
    forget_samples(measuring);
    show_progress(measuring);
    return true;
}

// --- together ---------------------------------------------------------------------

static uint64_t machine_clock(void *self, enum measure_clock clock)
{
    (void)self;
    return clock == MEASURE_THREAD_CPU ? clock_thread_cpu_ns() : clock_now_ns();
}

struct measure_options measure_usual_options(void)
{
    return (struct measure_options){
        .repeats = LEAST_REPEATS, .most_warm_ups = 100, .clock = MEASURE_THREAD_CPU, .now_ns = machine_clock
    };
}

void measurement_free(struct measurement *measurement)
{
    if (!measurement)
        return;
    free(measurement->layers);
    free(measurement);
}

static struct measurement *measurement_create(const struct measured *what, const struct measure_options *options,
                                              struct error *error)
{
    struct measurement *measurement = calloc(1, sizeof *measurement);
    if (measurement) {
        measurement->layers = calloc(what->layer_count, sizeof measurement->layers[0]);
        measurement->layer_count = what->layer_count;
        measurement->repeats = options->repeats;
        measurement->clock = what->mark ? MEASURE_WALL : options->clock;
        if (measurement->layers)
            return measurement;
    }
    measurement_free(measurement);
    return error_null(error_no_memory(error, "a measurement"));
}

struct measurement *measure_layers(const struct measured *what, const struct measure_options *options,
                                   struct error *error)
{
    assert(what->layer_count > 0 && options->repeats >= LEAST_REPEATS);
    struct measurement *measurement = measurement_create(what, options, error);
    if (!measurement)
        return NULL;
    struct measuring measuring;
    bool good = measuring_init(&measuring, what, options, error) && measure_in_place(&measuring, measurement);
    for (size_t layer = 0; layer < what->layer_count && good; layer++)
        good = measure_alone(&measuring, layer, measurement);
    measuring_clear(&measuring);
    if (good)
        return measurement;
    measurement_free(measurement);
    return NULL;
}
