#include "profiler/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/shown.h"
#include "profiler/profile_words.h"

// The whole may differ from the sum of its parts by a tenth.
enum { TOLERANCE = 10 };
enum { LEAST_REPEATS = 20 };

// What the checks write to.
struct linter {
    const struct profile *profile;
    const char *name;
    struct text *text;
    bool only_grave;
    struct lint found;
};

static void find(struct linter *linter, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void find_grave(struct linter *linter, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void find_at(struct linter *linter, size_t layer, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add_line(struct linter *linter, const char *place, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void add_line(struct linter *linter, const char *place, const char *format, va_list arguments)
{
    char sentence[400];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    shown_add(linter->text, "%s: %s%s", linter->name, place, sentence);
    text_add(linter->text, "\n");
    linter->found.findings++;
}

static void find(struct linter *linter, const char *format, ...)
{
    if (linter->only_grave)
        return;
    va_list arguments;
    va_start(arguments, format);
    add_line(linter, "", format, arguments);
    va_end(arguments);
}

static void find_grave(struct linter *linter, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_line(linter, "untrusted: ", format, arguments);
    va_end(arguments);
    linter->found.grave++;
}

static void find_at(struct linter *linter, size_t layer, const char *format, ...)
{
    char place[120];
    if (linter->only_grave)
        return;
    snprintf(place, sizeof place, "layers[%zu] (%.80s): ", layer, linter->profile->layers[layer].name);
    va_list arguments;
    va_start(arguments, format);
    add_line(linter, place, format, arguments);
    va_end(arguments);
}

// --- the whole ----------------------------------------------------------------

bool profile_sum_holds(const struct profile *profile)
{
    const uint64_t sum = profile->source.sum_ns, whole = profile->source.whole_ns;
    const uint64_t apart = sum > whole ? sum - whole : whole - sum;
    return whole == 0 || multiply_clamped(apart, TOLERANCE) <= whole;
}

static uint64_t sum_of_layers(const struct profile *profile)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        sum = add_clamped(sum, add_clamped(profile->layers[i].forward_ns, profile->layers[i].backward_ns));
    return sum;
}

static void check_sum(struct linter *linter)
{
    const struct profile_source *source = &linter->profile->source;
    const uint64_t sum = sum_of_layers(linter->profile);
    char one[NUMBER_SIZE], other[NUMBER_SIZE];
    if (sum == 0)
        find_grave(linter, "no layer takes any time, so every plan is as good as another; measure the model");
    if (source->sum_ns != 0 && source->sum_ns != sum)
        find_grave(linter,
                   "source.sum_ns is %s, but the layers add up to %s; it was changed by hand, so measure it again",
                   time_format(source->sum_ns, one), time_format(sum, other));
    if (!profile_sum_holds(linter->profile))
        find_grave(linter,
                   "the layers add up to %s, but the whole model takes %s, more than 10 %% apart; "
                   "measure it again on an idle machine",
                   time_format(source->sum_ns, one), time_format(source->whole_ns, other));
}

static void check_source(struct linter *linter)
{
    const struct profile_source *source = &linter->profile->source;
    if (source->how == PROFILE_MEASURED && source->whole_ns == 0)
        find(linter, "the whole model was never timed, so nothing vouches for the sum of its layers");
    if (source->how == PROFILE_MEASURED && source->repeats < LEAST_REPEATS)
        find(linter, "each time stands on %llu samples; take at least %d", (unsigned long long)source->repeats,
             LEAST_REPEATS);
    if (!source->backward_split_measured)
        find(linter, "the split of the backward into I and W is assumed; plans that part the two stand on a guess");
}

// --- each layer ----------------------------------------------------------------

// A layer that only brings in data has nothing to compute.
static bool is_input(const struct profile_layer *layer)
{
    return strncmp(layer->kind, "Input", 5) == 0 || strncmp(layer->kind, "input", 5) == 0;
}

static void check_times(struct linter *linter, size_t i)
{
    const struct profile_layer *layer = &linter->profile->layers[i];
    char one[NUMBER_SIZE], other[NUMBER_SIZE];
    const uint64_t split = layer->backward_input_ns + layer->backward_weight_ns;
    if (layer->forward_ns == 0 && layer->backward_ns == 0) {
        if (!is_input(layer))
            find_at(linter, i, "takes no time at all; it is too short for the clock, or was never run");
        return;
    }
    if (layer->forward_ns == 0)
        find_at(linter, i, "its forward takes no time, but its backward takes %s",
                time_format(layer->backward_ns, one));
    else if (layer->backward_ns < layer->forward_ns)
        find_at(linter, i, "its backward (%s) is cheaper than its forward (%s); see whether all of it was timed",
                time_format(layer->backward_ns, one), time_format(layer->forward_ns, other));
    if (layer->has_backward && layer->backward_ns > add_clamped(split, split / TOLERANCE))
        find_at(linter, i, "its fused backward (%s) takes more than I and W together (%s); run those two instead",
                time_format(layer->backward_ns, one), time_format(split, other));
    if (layer->parameter_bytes == 0 && layer->backward_weight_ns > 0 && linter->profile->source.backward_split_measured)
        find_at(linter, i, "has no parameters, yet its backward for the weights takes %s",
                time_format(layer->backward_weight_ns, one));
}

static void check_spread(struct linter *linter, size_t i)
{
    const struct profile_layer *layer = &linter->profile->layers[i];
    char one[NUMBER_SIZE], other[NUMBER_SIZE];
    for (size_t phase = 0; phase < PHASES; phase++) {
        const struct spread *spread = &layer->spread[phase];
        if (layer->has_spread[phase] && spread->p95_ns > add_clamped(spread->median_ns, spread->median_ns / 2))
            find_at(linter, i,
                    "spread.%s is wide: p95 %s is more than 1.5 times the median %s; measure on an idle machine",
                    phase_words[phase], time_format(spread->p95_ns, one), time_format(spread->median_ns, other));
    }
}

static bool has_reader(const struct profile *profile, size_t layer)
{
    if (profile->is_chain)
        return layer + 1 < profile->layer_count;
    for (size_t e = 0; e < profile->edge_count; e++)
        if (profile->edges[e].from == layer)
            return true;
    return false;
}

static void check_bytes(struct linter *linter, size_t i)
{
    const struct profile_layer *layer = &linter->profile->layers[i];
    const bool is_read = has_reader(linter->profile, i);
    if (layer->parameter_bytes > 0 && profile_kept_bytes(layer) == 0 && layer->input_kept == INPUT_KEPT_NONE)
        find_at(linter, i,
                "has parameters, but keeps neither its input nor anything else for their gradients; "
                "set input_kept or saved_bytes");
    if (is_read && layer->output_bytes == 0 && !is_input(layer))
        find_at(linter, i, "hands on 0 bytes to the layers that read it");
    if (!is_read && i + 1 < linter->profile->layer_count)
        find_at(linter, i, "feeds no other layer; its work is lost, or an edge is missing");
}

// A parameter of a product is multiplied at least once in a forward, which is two operations. Vectors beside it, and
// rounding, are allowed for.
static void check_parameters(struct linter *linter, size_t i)
{
    const struct profile_layer *layer = &linter->profile->layers[i];
    const uint32_t number_bytes = profile_dtype_bytes(linter->profile->dtype);
    const uint64_t numbers = number_bytes > 0 ? layer->parameter_bytes / number_bytes : 0;
    uint64_t of_shapes = 0;
    for (size_t t = 0; t < layer->shape_count; t++)
        of_shapes = add_clamped(of_shapes, multiply_clamped(layer->shapes[t].rows, layer->shapes[t].columns));
    char bytes[NUMBER_SIZE];
    if (layer->shape_count > 0 && numbers > add_clamped(multiply_clamped(2, of_shapes), 256 * layer->shape_count))
        find_at(linter, i, "has %s of parameters, and its shapes are of %llu numbers; one of the two is wrong",
                bytes_format(layer->parameter_bytes, bytes), (unsigned long long)of_shapes);
    else if (layer->flops > 0 && numbers > 4096 && numbers > layer->flops)
        find_at(linter, i, "has %s of parameters, of which its %llu operations cannot use half; see whether these are"
                " bytes", bytes_format(layer->parameter_bytes, bytes), (unsigned long long)layer->flops);
}

// What none but a sum, a copy or a view does: a backward for the input that needs nothing of the forward.
static bool needs_its_forward(const struct profile_layer *layer)
{
    static const char *const kinds[] = { "relu", "gelu", "silu", "norm", "attention", "softmax", "maxpool", "max-pool" };
    char kind[32] = "";
    for (size_t k = 0; layer->kind[k] && k + 1 < sizeof kind; k++)
        kind[k] = (char)(layer->kind[k] >= 'A' && layer->kind[k] <= 'Z' ? layer->kind[k] + 'a' - 'A' : layer->kind[k]);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (strstr(kind, kinds[k]))
            return true;
    return false;
}

static void check_saved(struct linter *linter, size_t i)
{
    const struct profile_layer *layer = &linter->profile->layers[i];
    if (profile_kept_bytes(layer) == 0 && layer->input_kept == INPUT_KEPT_NONE && layer->parameter_bytes == 0
        && layer->backward_input_ns > 0 && needs_its_forward(layer))
        find_at(linter, i, "is a %.40s, whose backward needs something of its forward, yet it keeps nothing; set"
                " saved_bytes or input_kept", layer->kind);
}

static void check_share(struct linter *linter, size_t i, uint64_t sum)
{
    const struct profile_layer *layer = &linter->profile->layers[i];
    if (linter->profile->layer_count > 1 && layer->forward_ns + layer->backward_ns > sum / 2)
        find_at(linter, i, "takes more than half of the model's time, and no cut can part it; split it in two layers");
}

// --- several layers -----------------------------------------------------------

static void check_tied(struct linter *linter)
{
    const struct profile *profile = linter->profile;
    for (size_t t = 0; t < profile->tied_count; t++) {
        const struct profile_layer *one = &profile->layers[profile->tied[t].from];
        const struct profile_layer *other = &profile->layers[profile->tied[t].to];
        const bool is_one_owner = profile->one_owner_count
                                  && bsearch(&profile->tied[t], profile->one_owner, profile->one_owner_count,
                                             sizeof profile->one_owner[0], edges_compare);
        if (is_one_owner && one->parameter_bytes == 0)
            find(linter, "one_owner: %.80s reads the parameters of %.80s, which has none", other->name, one->name);
        else if (!is_one_owner && (one->parameter_bytes == 0 || other->parameter_bytes == 0))
            find(linter, "tied[%zu]: %.80s and %.80s share parameters, but %.80s has none", t, one->name, other->name,
                 one->parameter_bytes == 0 ? one->name : other->name);
    }
}

// Whether times are in nanoseconds: by the bytes that all forwards together hand on, and by their operations.
static void check_unit(struct linter *linter)
{
    const double fastest_writes = 2e4, slowest_writes = 1e-5;  // bytes per ns: 20 TB/s, and 10 KB/s
    const double most_operations = 1e7, fewest_operations = 1e-5;  // per ns: 10 PFLOP/s, and 10 kFLOP/s
    const struct profile *profile = linter->profile;
    double bytes = 0, operations = 0, ns = 0, operations_ns = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        const double took_ns = (double)layer->forward_ns;
        bytes += took_ns > 0 ? (double)layer->output_bytes : 0;
        operations += took_ns > 0 ? (double)layer->flops : 0;
        ns += took_ns;
        operations_ns += layer->flops > 0 ? took_ns : 0;
    }
    if (ns > 0 && (bytes > fastest_writes * ns || operations > most_operations * operations_ns))
        find_grave(linter, "its forwards take %.3g ns, and would hand on %.3g GB and compute %.3g GFLOP a second: no device"
                   " is so fast; give times in nanoseconds", ns, bytes / ns, operations / ns);
    else if (bytes > 1e6 && bytes < slowest_writes * ns)
        find_grave(linter, "its forwards take %.3g s to hand on %.3g MB: give times in nanoseconds", ns / 1e9, bytes / 1e6);
    else if (operations > 1e6 && operations < fewest_operations * operations_ns)
        find_grave(linter, "its forwards take %.3g s for %.3g million operations: give times in nanoseconds", ns / 1e9,
                   operations / 1e6);
}

static struct lint lint(struct linter linter)
{
    const uint64_t sum = sum_of_layers(linter.profile);
    check_sum(&linter);
    check_source(&linter);
    check_unit(&linter);
    for (size_t i = 0; i < linter.profile->layer_count; i++) {
        check_times(&linter, i);
        check_spread(&linter, i);
        check_bytes(&linter, i);
        check_parameters(&linter, i);
        check_saved(&linter, i);
        check_share(&linter, i, sum);
    }
    check_tied(&linter);
    return linter.found;
}

struct lint profile_lint(const struct profile *profile, const char *name, struct text *text)
{
    return lint((struct linter){ .profile = profile, .name = name, .text = text });
}

struct lint profile_lint_grave(const struct profile *profile, const char *name, struct text *text)
{
    return lint((struct linter){ .profile = profile, .name = name, .text = text, .only_grave = true });
}
