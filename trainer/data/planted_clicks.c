#include "trainer/data/planted_clicks.h"

#include <math.h>
#include <stdlib.h>

#include "common/arrays.h"
#include "common/number.h"
#include "common/random.h"
#include "trainer/data/auc.h"

enum { MOST_PAIRS = 2, BITS = 12, MISSING_EVERY = 20, NEGATIVE_EVERY = 50 };

// What is drawn for each id of each slot, and for each number.
enum drawn { DRAWN_EFFECT = 1, DRAWN_FACTOR, DRAWN_NUMBER, DRAWN_SAMPLE };

static uint64_t state_of(uint64_t seed, enum drawn drawn, uint64_t a, uint64_t b)
{
    uint64_t state = seed;
    state = random_next(&state) ^ (uint64_t)drawn;
    state = random_next(&state) ^ a;
    state = random_next(&state) ^ b;
    return state;
}

// Mean 0, variance 1, never beyond 3.5: four uniform numbers. Sums and products are the same on all machines.
static double drawn_number(uint64_t *state)
{
    double sum = -2;
    for (int i = 0; i < 4; i++)
        sum += random_unit(state);
    return sum * 1.7320508075688772;
}

// --- the probability -------------------------------------------------------------------------

struct bag {
    double effect, factor;
};

static struct bag bag_of(const struct planted_clicks *request, const struct click_sample *sample, size_t slot)
{
    struct bag bag = { 0 };
    const uint32_t first = slot > 0 ? sample->ends[slot - 1] : 0, count = sample->ends[slot] - first;
    for (uint32_t i = first; i < sample->ends[slot]; i++) {
        uint64_t effect = state_of(request->seed, DRAWN_EFFECT, slot, sample->ids[i]);
        uint64_t factor = state_of(request->seed, DRAWN_FACTOR, slot, sample->ids[i]);
        bag.effect += drawn_number(&effect) / count;
        bag.factor += drawn_number(&factor) / count;
    }
    return bag;
}

static int bits_of(float number)
{
    int bits = 0;
    while (bits < BITS && number >= (float)(1 << bits))
        bits++;
    return bits;
}

static double numbers_effect(const struct planted_clicks *request, const float *numbers)
{
    double sum = 0;
    for (uint64_t n = 0; n < request->numbers; n++) {
        uint64_t state = state_of(request->seed, DRAWN_NUMBER, n, 0);
        sum += drawn_number(&state) * (bits_of(numbers[n]) - 5) / 3;
    }
    return request->numbers > 0 ? 0.5 * sum / sqrt((double)request->numbers) : 0;
}

double planted_clicks_probability(const struct planted_clicks *request, const struct click_sample *sample)
{
    const uint64_t pairs = min_u64(request->slots / 2, MOST_PAIRS);
    double alone = 0, paired = 0;
    struct bag before = { 0 };
    for (uint64_t s = 0; s < request->slots; s++) {
        const struct bag bag = bag_of(request, sample, s);
        alone += bag.effect;
        paired += s % 2 == 1 && s < 2 * pairs ? before.factor * bag.factor : 0;
        before = bag;
    }
    const double z = -1 + alone / sqrt((double)request->slots) + numbers_effect(request, sample->numbers)
                   + (pairs > 0 ? 1.5 * paired / sqrt((double)pairs) : 0);
    return 1 / (1 + exp(-z));
}

// --- samples ---------------------------------------------------------------------------------

struct maker {
    const struct planted_clicks *request;
    double *sums;  // of 1 / (k + 1), up to each id
    float *numbers;
    uint32_t *ids, *ends;
    struct scored *held;  // what the known probability says of those held out
};

static uint32_t draw_id(const struct maker *maker, uint64_t *state)
{
    const uint64_t last = maker->request->ids - 1;
    const double at = random_unit(state) * maker->sums[last];
    uint64_t low = 0, high = last;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (maker->sums[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)low;
}

static float draw_number(uint64_t *state)
{
    const uint64_t bound = (uint64_t)1 << random_below(state, BITS), number = random_below(state, bound);
    const uint64_t kind = random_next(state);
    return kind % MISSING_EVERY == 0 ? 0 : kind / MISSING_EVERY % NEGATIVE_EVERY == 0 ? -1 : (float)number;
}

static struct click_sample draw_sample(const struct maker *maker, uint64_t number, double *probability)
{
    const struct planted_clicks *request = maker->request;
    uint64_t state = state_of(request->seed, DRAWN_SAMPLE, number, 0);
    uint32_t end = 0;
    for (uint64_t n = 0; n < request->numbers; n++)
        maker->numbers[n] = draw_number(&state);
    for (uint64_t s = 0; s < request->slots; s++) {
        const bool is_empty = random_below(&state, MISSING_EVERY) == 0;
        const uint64_t count = is_empty ? 0 : 1 + random_below(&state, request->most);
        for (uint64_t i = 0; i < count; i++)
            maker->ids[end++] = draw_id(maker, &state);
        maker->ends[s] = end;
    }
    struct click_sample sample = { 0, maker->numbers, maker->ids, NULL, maker->ends };
    *probability = planted_clicks_probability(request, &sample);
    sample.label = random_unit(&state) < *probability;
    return sample;
}

static void name_fields(const struct planted_clicks *request, struct click_writer *writer)
{
    click_writer_add_numbered(writer, request->numbers, request->slots, request->ids);
    writer->fields.split = CLICK_SPLIT_LAST;
    writer->fields.is_generated = true;
    writer->fields.seed = request->seed;
}

static bool open_maker(struct maker *maker, struct arrays *arrays, struct error *error)
{
    const struct planted_clicks *request = maker->request;
    maker->sums = arrays_add(arrays, request->ids, sizeof *maker->sums);
    maker->numbers = arrays_add(arrays, request->numbers, sizeof *maker->numbers);
    maker->ids = arrays_add(arrays, request->slots * request->most, sizeof *maker->ids);
    maker->ends = arrays_add(arrays, request->slots, sizeof *maker->ends);
    maker->held = arrays_add(arrays, request->samples / PLANTED_HELD_EVERY, sizeof *maker->held);
    if (arrays->failed)
        return error_no_memory(error, "generated clicks");
    for (uint64_t k = 0; k < request->ids; k++)
        maker->sums[k] = (k > 0 ? maker->sums[k - 1] : 0) + 1 / ((double)k + 1);
    return true;
}

bool planted_clicks_make(const struct planted_clicks *request, struct click_writer *writer, uint64_t *train,
                         struct error *error)
{
    struct maker maker = { .request = request };
    struct arrays arrays = { 0 };
    const uint64_t held = request->samples / PLANTED_HELD_EVERY;
    *train = request->samples - held;
    bool good = open_maker(&maker, &arrays, error);
    if (good)
        name_fields(request, writer);
    for (uint64_t i = 0; good && i < request->samples; i++) {
        double probability;
        const struct click_sample sample = draw_sample(&maker, i, &probability);
        click_writer_add(writer, &sample);
        if (i >= *train)
            maker.held[i - *train] = (struct scored){ probability, sample.label == 1 };
    }
    const double best = good ? auc_of(maker.held, held) : 0;
    if (good && isnan(best))
        good = error_set(error, "the %llu held-out samples all have the same label, so that nothing can be said of"
                         " them: ask for more with --samples", (unsigned long long)held);
    if (good)
        writer->fields.best_auc_ppm = (uint32_t)round(best * 1e6);
    arrays_clear(&arrays);
    return good;
}
