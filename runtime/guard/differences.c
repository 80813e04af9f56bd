#include "runtime/guard/differences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"

enum { PARTS = 8, STEPS = 2 };
static const double steps[STEPS] = { 0x1p-7, 0x1p-11 };
static const double tolerance = 0.02;
// error of a float that is the sum of some hundred others, relative to its size
static const double rounding = 32 * 0x1p-24;

// Numbers [first, end) of a place, which are moved together.
struct part {
    enum place place;
    size_t first, end;
    const float *origin, *gradient;
    float *moved;  // all numbers of the place; forward reads them
    double size;   // root mean square of all numbers
};

// A loss of forward, times the part of it that gradients are of.
static double share_of(const struct differing *differing, enum place place)
{
    float loss;
    memcpy(&loss, differing->forward->fences[place].at, sizeof loss);
    return loss * differing->loss_share;
}

// The words at the end of a sentence about a gradient.
static const char *advice(const struct differing *differing)
{
    if (!differing->output_gradient)
        return " (is it multiplied by weir_pass.share? if it is of another part of the loss, say"
               " weir_check_layers_options.loss_share)";
    return differing->has_auxiliary_loss ? " (is weir_pass.share times the gradient of auxiliary_loss in it?)" : "";
}

static const char *value_words(const struct differing *differing)
{
    if (!differing->output_gradient)
        return "the loss";
    return differing->has_auxiliary_loss ? "forward's output and auxiliary_loss" : "forward's output";
}

// The result of forward as one number, and the size of the terms that it is the sum of.
static double value_of(const struct differing *differing, double *size)
{
    const struct guarded_call *forward = differing->forward;
    if (!differing->output_gradient) {
        const double loss = share_of(differing, PLACE_LOSS);
        *size = fabs(loss);
        return loss;
    }
    const float *output = (const float *)forward->fences[PLACE_OUTPUT].at;
    double sum = differing->has_auxiliary_loss ? share_of(differing, PLACE_AUXILIARY_LOSS) : 0, squares = sum * sum;
    for (size_t i = 0; i < differing->output_count; i++) {
        const double term = (double)output[i] * differing->output_gradient[i];
        sum += term;
        squares += term * term;
    }
    *size = sqrt(squares);
    return sum;
}

// The direction in which a number is moved: that of its gradient, or a random one if the gradient is 0.
static double way(const struct part *part, size_t i)
{
    uint64_t seed = i;
    if (part->gradient[i] != 0)
        return part->gradient[i] > 0 ? 1 : -1;
    return random_next(&seed) % 2 == 0 ? 1 : -1;
}

static bool move(const struct differing *differing, const struct part *part, double step, double *value, double *size,
                 struct error *error)
{
    memcpy(part->moved + part->first, part->origin + part->first, (part->end - part->first) * sizeof *part->moved);
    for (size_t i = part->first; i < part->end; i++)
        part->moved[i] = (float)(part->origin[i] + step * way(part, i));
    if (!guarded_call_run(differing->forward, error))
        return false;
    *value = value_of(differing, size);
    memcpy(part->moved + part->first, part->origin + part->first, (part->end - part->first) * sizeof *part->moved);
    return true;
}

// Agreement with one of the two h is enough. The sentence reports the last one.
static bool part_agrees(const struct differing *differing, const struct part *part, const char *name,
                        struct error *error)
{
    double claimed = 0, found = 0;
    for (size_t i = part->first; i < part->end; i++)
        claimed += part->gradient[i] * way(part, i);
    for (int s = 0; s < STEPS; s++) {
        const double step = steps[s] * part->size;
        double above, below, size;
        if (!move(differing, part, step, &above, &size, error) || !move(differing, part, -step, &below, &size, error))
            return false;
        found = (above - below) / (2 * step);
        if (fabs(found - claimed) <= tolerance * fmax(fabs(found), fabs(claimed)) + rounding * size / step)
            return true;
    }
    return error_set_kind(error, ERROR_ANSWER, "%s computes a gradient of %s %zu to %zu that is not forward's: along"
                          " its signs it sums up to %.4g, and differences of %s to %.4g%s", name,
                          place_names[part->place], part->first, part->end - 1, claimed,
                          value_words(differing), found, advice(differing));
}

static double root_mean_square(const float *numbers, size_t count)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)numbers[i] * numbers[i];
    return squares > 0 ? sqrt(squares / (double)count) : 1;
}

bool differences_agree(const struct differing *differing, enum place place, const float *gradient, size_t count,
                       const char *name, struct error *error)
{
    struct place_role *role = &differing->forward->roles[place];
    const struct place_role was = *role;
    const size_t parts = count < PARTS ? count : PARTS;
    if (count == 0)
        return true;
    float *moved = malloc(was.content_bytes);
    if (!moved)
        return error_no_memory(error, "the numbers of a layer");
    memcpy(moved, was.content, was.content_bytes);
    role->content = moved;
    struct part part = { .place = place, .origin = was.content, .gradient = gradient, .moved = moved,
                         .size = root_mean_square(was.content, count) };
    bool good = true;
    for (size_t i = 0; good && i < parts; i++) {
        part.first = count * i / parts;
        part.end = count * (i + 1) / parts;
        good = part_agrees(differing, &part, name, error);
    }
    *role = was;
    free(moved);
    return good;
}
