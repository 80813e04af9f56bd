#include "profiler/report.h"

#include <inttypes.h>
#include <string.h>

#include "common/number.h"
#include "common/shown.h"
#include "profiler/lint.h"
#include "profiler/profile_words.h"

enum { MOST_NAME = 60 };

static int name_width(const struct profile *profile)
{
    size_t width = strlen("layer");
    for (size_t i = 0; i < profile->layer_count; i++) {
        const size_t length = shown_width(profile->layers[i].name);
        width = length > width ? length : width;
    }
    return (int)(width > MOST_NAME ? MOST_NAME : width);
}

// The cell is empty if the time was not measured, rather than showing a number that looks measured.
static void add_spread(struct text *text, const struct profile_layer *layer, enum phase phase)
{
    char p95[NUMBER_SIZE];
    text_add(text, "  %8s", layer->has_spread[phase] ? time_format(layer->spread[phase].p95_ns, p95) : "-");
}

static void add_times(struct text *text, const struct profile_layer *layer)
{
    char number[NUMBER_SIZE];
    text_add(text, "  %8s", time_format(layer->forward_ns, number));
    add_spread(text, layer, PHASE_FORWARD);
    text_add(text, "  %8s", time_format(layer->backward_input_ns, number));
    add_spread(text, layer, PHASE_BACKWARD_INPUT);
    text_add(text, "  %8s", time_format(layer->backward_weight_ns, number));
    add_spread(text, layer, PHASE_BACKWARD_WEIGHT);
    text_add(text, "  %8s", time_format(layer->backward_ns, number));
}

static void add_bytes(struct text *text, const struct profile_layer *layer)
{
    char number[NUMBER_SIZE];
    text_add(text, "  %8s", bytes_format(layer->parameter_bytes, number));
    text_add(text, "  %8s", bytes_format(layer->output_bytes, number));
    text_add(text, "  %8s\n", bytes_format(profile_kept_bytes(layer), number));
}

static void add_row(struct text *text, const struct profile_layer *layer, int width)
{
    shown_add_cell(text, layer->name, (size_t)width, MOST_NAME);
    add_times(text, layer);
    add_bytes(text, layer);
}

static struct profile_layer total_of(const struct profile *profile)
{
    struct profile_layer total = { .name = NULL };
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        total.forward_ns = add_clamped(total.forward_ns, layer->forward_ns);
        total.backward_input_ns = add_clamped(total.backward_input_ns, layer->backward_input_ns);
        total.backward_weight_ns = add_clamped(total.backward_weight_ns, layer->backward_weight_ns);
        total.backward_ns = add_clamped(total.backward_ns, layer->backward_ns);
        total.parameter_bytes = add_clamped(total.parameter_bytes, layer->parameter_bytes);
        total.output_bytes = add_clamped(total.output_bytes, layer->output_bytes);
        total.saved_bytes = add_clamped(total.saved_bytes, profile_kept_bytes(layer));
    }
    return total;
}

static void add_source(struct text *text, const struct profile *profile)
{
    const struct profile_source *source = &profile->source;
    shown_add(text, "%s, micro-batch %" PRIu64 ", %s, %s", profile->model, profile->micro_batch, profile->dtype,
              profile_how_words[source->how]);
    if (*source->device)
        shown_add(text, " on %s", source->device);
    if (*source->clock)
        shown_add(text, " by %s", source->clock);
    if (source->repeats > 0)
        text_add(text, ", %" PRIu64 " samples", source->repeats);
    text_add(text, "%s\n\n", source->backward_split_measured ? "" : ", I and W assumed");
}

static void add_sum(struct text *text, const struct profile *profile)
{
    const uint64_t sum = profile->source.sum_ns, whole = profile->source.whole_ns;
    char one[NUMBER_SIZE], other[NUMBER_SIZE];
    if (whole == 0) {
        text_add(text, "\nThe whole model was not timed, so nothing vouches for the sum of its layers.\n");
        return;
    }
    const double percent = 100.0 * ((double)whole - (double)sum) / (double)whole;
    text_add(text, "\nThe layers add up to %s; the whole model takes %s (%.1f %% %s).\n", time_format(sum, one),
             time_format(whole, other), percent < 0 ? -percent : percent, percent < 0 ? "less" : "more");
    if (!profile_sum_holds(profile))
        text_add(text, "More than 10 %% apart: this profile is untrusted. Measure it again on an idle machine.\n");
}

void profile_print(const struct profile *profile, struct text *text)
{
    const int width = name_width(profile);
    add_source(text, profile);
    text_add(text, "%-*s  %8s  %8s  %8s  %8s  %8s  %8s  %8s  %8s  %8s  %8s\n", width, "layer", "F", "p95", "I", "p95",
             "W", "p95", "B", "params", "output", "saved");
    for (size_t i = 0; i < profile->layer_count; i++)
        add_row(text, &profile->layers[i], width);
    struct profile_layer total = total_of(profile);
    total.name = "total";
    add_row(text, &total, width);
    add_sum(text, profile);
}

// --- what the profile leaves out ----------------------------------------------------

static uint64_t sum_of(const struct measurement *measurement, enum measure_clock clock, bool is_alone)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < measurement->layer_count; i++) {
        const struct spread(*times)[MEASURE_CLOCKS] =
            is_alone ? measurement->layers[i].alone : measurement->layers[i].in_place;
        sum += times[PHASE_FORWARD][clock].median_ns + times[PHASE_BACKWARD][clock].median_ns;
    }
    return sum;
}

static void add_other_sum(struct text *text, const char *how, uint64_t other, uint64_t sum)
{
    char number[NUMBER_SIZE];
    const double percent = sum == 0 ? 0 : 100.0 * ((double)other - (double)sum) / (double)sum;
    text_add(text, "%s they add up to %s (%.1f %% %s).\n", how, time_format(other, number),
             percent < 0 ? -percent : percent, percent < 0 ? "less" : "more");
}

void measurement_print(const struct measurement *measurement, struct text *text)
{
    const enum measure_clock clock = measurement->clock;
    const enum measure_clock other = clock == MEASURE_WALL ? MEASURE_THREAD_CPU : MEASURE_WALL;
    const uint64_t sum = sum_of(measurement, clock, false);
    add_other_sum(text, "Each run alone, its data warm,", sum_of(measurement, clock, true), sum);
    add_other_sum(text, other == MEASURE_WALL ? "By the wall clock" : "By the thread's CPU time",
                  sum_of(measurement, other, false), sum);
    if (!measurement->settled)
        text_add(text, "The whole model did not settle within 5 %% in %" PRIu64 " warm-ups.\n", measurement->warm_ups);
    if (measurement->restless > 0)
        text_add(text, "%zu layers did not settle within 5 %% when run alone.\n", measurement->restless);
}
