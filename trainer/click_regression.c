#include "trainer/click_regression.h"

#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "trainer/data/auc.h"
#include "trainer/majority.h"

// --- what a sample is --------------------------------------------------------------------------

static double logarithm(float number)
{
    return log1p(fmax((double)number, 0));
}

static struct click_sample sample_at(const struct click_regression *regression, uint64_t number)
{
    struct click_sample sample;
    click_data_at(regression->data, (struct sample_place){ number, 0 }, &sample);
    return sample;
}

// Logarithms of one number, moved and scaled to mean 0 and variance 1 over the training samples.
static void find_features(struct click_regression *regression, size_t number)
{
    const struct sample_data *data = regression->data;
    const size_t numbers = click_data_numbers(data);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < data->train; i++)
        sum += logarithm(sample_at(regression, i).numbers[number]);
    const double mean = sum / (double)data->train;
    for (uint64_t i = 0; i < data->train; i++) {
        const double from_mean = logarithm(sample_at(regression, i).numbers[number]) - mean;
        squares += from_mean * from_mean;
    }
    const double scale = squares > 0 ? sqrt((double)data->train / squares) : 0;
    for (uint64_t i = 0; i < data->train + data->held; i++)
        regression->features[i * numbers + number] =
            (float)((logarithm(sample_at(regression, i).numbers[number]) - mean) * scale);
}

// |x|^2: an id that a bag has twice counts as 2 x 2.
static double square_of(const struct click_regression *regression, uint64_t number)
{
    const size_t slots = click_data_slots(regression->data), numbers = click_data_numbers(regression->data);
    const struct click_sample sample = sample_at(regression, number);
    double square = 1;
    for (size_t n = 0; n < numbers; n++) {
        const double feature = (double)regression->features[number * numbers + n];
        square += feature * feature;
    }
    for (size_t s = 0; s < slots; s++)
        for (uint32_t i = s > 0 ? sample.ends[s - 1] : 0; i < sample.ends[s]; i++)
            for (uint32_t k = s > 0 ? sample.ends[s - 1] : 0; k < sample.ends[s]; k++)
                square += sample.ids[i] == sample.ids[k];
    return square;
}

// w . x
static double product(const struct click_regression *regression, uint64_t number, const struct click_sample *sample)
{
    const size_t slots = click_data_slots(regression->data), numbers = click_data_numbers(regression->data);
    const double *last = regression->weights + regression->first_weights[slots];
    double sum = last[numbers];
    uint32_t i = 0;
    for (size_t s = 0; s < slots; s++)
        for (const double *weights = regression->weights + regression->first_weights[s]; i < sample->ends[s]; i++)
            sum += weights[sample->ids[i]];
    for (size_t n = 0; n < numbers; n++)
        sum += last[n] * (double)regression->features[number * numbers + n];
    return sum;
}

// w += step x
static void add(struct click_regression *regression, uint64_t number, const struct click_sample *sample, double step)
{
    const size_t slots = click_data_slots(regression->data), numbers = click_data_numbers(regression->data);
    double *last = regression->weights + regression->first_weights[slots];
    uint32_t i = 0;
    for (size_t s = 0; s < slots; s++)
        for (double *weights = regression->weights + regression->first_weights[s]; i < sample->ends[s]; i++)
            weights[sample->ids[i]] += step;
    for (size_t n = 0; n < numbers; n++)
        last[n] += step * (double)regression->features[number * numbers + n];
    last[numbers] += step;
}

// --- training ----------------------------------------------------------------------------------

bool click_regression_open(struct click_regression *regression, const struct sample_data *data, struct error *error)
{
    const size_t slots = click_data_slots(data), numbers = click_data_numbers(data);
    *regression = (struct click_regression){ .data = data };
    regression->first_weights = calloc(slots + 1, sizeof regression->first_weights[0]);
    for (size_t s = 0; regression->first_weights && s < slots; s++)
        regression->first_weights[s + 1] = regression->first_weights[s] + click_data_ids(data, s);
    regression->weight_count = regression->first_weights ? regression->first_weights[slots] + numbers + 1 : 1;
    regression->weights = calloc(regression->weight_count, sizeof regression->weights[0]);
    regression->shares = calloc(data->train, sizeof regression->shares[0]);
    regression->logits = calloc(data->train, sizeof regression->logits[0]);
    regression->squares = calloc(data->train, sizeof regression->squares[0]);
    regression->features = calloc((data->train + data->held) * numbers + 1, sizeof regression->features[0]);
    if (!regression->first_weights || !regression->weights || !regression->shares || !regression->logits
        || !regression->squares || !regression->features) {
        click_regression_close(regression);
        return error_no_memory(error, "a logistic regression");
    }
    for (size_t n = 0; n < numbers; n++)
        find_features(regression, n);
    for (uint64_t i = 0; i < data->train; i++)
        regression->squares[i] = square_of(regression, i);
    return true;
}

void click_regression_close(struct click_regression *regression)
{
    free(regression->first_weights);
    free(regression->weights);
    free(regression->shares);
    free(regression->logits);
    free(regression->squares);
    free(regression->features);
    *regression = (struct click_regression){ 0 };
}

bool click_regression_chooses_on(uint64_t sample)
{
    uint64_t state = sample ^ 0x63686f6f7365;  // another draw than that of a rating that is held out
    return random_below(&state, 10) == 0;
}

// The logit of the share at which the dual problem is largest along one sample, whose margin y w . x is `margin` at the
// share `from`. It solves
//
//     t = margin + (p(t) - from) square,      p(t) = 1 / (1 + exp(t))
//
// whose left side rises and whose right side falls. Newton's steps begin at `t` and stay in the interval that has the
// solution.
static double best_logit(double margin, double from, double square, double t)
{
    enum { MOST_STEPS = 60 };
    double low = margin - from * square, high = margin + (1 - from) * square;
    t = fmin(fmax(t, low), high);
    for (int step = 0; step < MOST_STEPS; step++) {
        const double p = 1 / (1 + exp(t)), miss = t - margin - (p - from) * square;
        if (fabs(miss) <= 1e-9 * (1 + fabs(margin)))
            break;
        *(miss > 0 ? &high : &low) = t;
        t -= miss / (1 + square * p * (1 - p));
        t = t > low && t < high ? t : (low + high) / 2;
    }
    return t;
}

// log(1 + exp(-margin))
static double loss_of(double margin)
{
    return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

// What a sample adds to the dual problem: the entropy of its share.
static double entropy(double share)
{
    const double rest = 1 - share;
    return (share > 0 ? -share * log(share) : 0) + (rest > 0 ? -rest * log(rest) : 0);
}

// The gap between what is minimized and its lower bound, over what is minimized.
static double gap_of(const struct click_regression *regression, double l2, bool leaves_some_out)
{
    double square = 0, losses = 0, entropies = 0;
    for (uint64_t i = 0; i < regression->weight_count; i++)
        square += regression->weights[i] * regression->weights[i];
    for (uint64_t i = 0; i < regression->data->train; i++) {
        if (leaves_some_out && click_regression_chooses_on(i))
            continue;
        const struct click_sample sample = sample_at(regression, i);
        const double score = product(regression, i, &sample);
        losses += loss_of(sample.label ? score : -score);
        entropies += entropy(regression->shares[i]);
    }
    const double minimized = l2 / 2 * square + losses, bound = entropies - l2 / 2 * square;
    return (minimized - bound) / minimized;
}

static void train_epoch(struct click_regression *regression, uint64_t seed, uint32_t epoch, double l2,
                        bool leaves_some_out)
{
    const uint64_t train = regression->data->train;
    for (uint64_t i = 0; i < train; i++) {
        const uint64_t number = sample_data_place(regression->data, seed, epoch * train + i).sample;
        if (leaves_some_out && click_regression_chooses_on(number))
            continue;
        const struct click_sample sample = sample_at(regression, number);
        const double sign = sample.label ? 1 : -1, margin = sign * product(regression, number, &sample);
        double *share = &regression->shares[number], *logit = &regression->logits[number], before = *share;
        *logit = best_logit(margin, before, regression->squares[number] / l2, *logit);
        *share = 1 / (1 + exp(*logit));
        add(regression, number, &sample, sign * (*share - before) / l2);
    }
}

// The weights that the shares stand for with another L2; or none.
static void begin(struct click_regression *regression, double l2, bool leaves_some_out)
{
    const bool goes_on = regression->l2 > 0 && !(leaves_some_out && regression->has_all);
    for (uint64_t i = 0; i < regression->weight_count; i++)
        regression->weights[i] *= goes_on ? regression->l2 / l2 : 0;
    for (uint64_t i = 0; !goes_on && i < regression->data->train; i++)
        regression->shares[i] = regression->logits[i] = 0;
    regression->l2 = l2;
    regression->has_all = !leaves_some_out;
}

struct click_fit click_regression_train(struct click_regression *regression, uint64_t seed, double l2,
                                        bool leaves_some_out, double gap, uint32_t most_epochs)
{
    struct click_fit fit = { .gap = INFINITY };
    begin(regression, l2, leaves_some_out);
    while (fit.epochs < most_epochs && !(fit.gap <= gap)) {
        train_epoch(regression, seed, fit.epochs++, l2, leaves_some_out);
        fit.gap = gap_of(regression, l2, leaves_some_out);
    }
    return fit;
}

double click_regression_score(const struct click_regression *regression, struct sample_place place)
{
    const struct click_sample sample = sample_at(regression, place.sample);
    return product(regression, place.sample, &sample);
}

// --- the baseline --------------------------------------------------------------------------------

enum { MOST_EPOCHS = 200 };
static const double CHOOSING_GAP = 1e-4, SMALL_GAP = 1e-6;

// AUC on the samples that an L2 is chosen on, or on those held out.
static double auc_on(const struct click_regression *regression, bool held_out, struct scored *scored)
{
    const struct sample_data *data = regression->data;
    size_t count = 0;
    for (uint64_t i = held_out ? data->train : 0; i < (held_out ? data->train + data->held : data->train); i++)
        if (held_out || click_regression_chooses_on(i))
            scored[count++] = (struct scored){ click_regression_score(regression, (struct sample_place){ i, 0 }),
                                               sample_at(regression, i).label == 1 };
    return auc_of(scored, count);
}

static void choose_and_train(struct click_regression *regression, uint64_t seed, struct scored *scored,
                             struct click_baseline *baseline)
{
    static const double choices[] = { 128, 32, 8, 2, 0.5 };
    double best = -1;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        click_regression_train(regression, seed, choices[i], true, CHOOSING_GAP, MOST_EPOCHS);
        const double auc = auc_on(regression, false, scored);
        if (i == 0 || auc > best) {
            best = auc;
            baseline->l2 = choices[i];
        }
    }
    baseline->fit = click_regression_train(regression, seed, baseline->l2, false, SMALL_GAP, MOST_EPOCHS);
    baseline->auc = auc_on(regression, true, scored);
}

bool click_baseline_find(const struct sample_data *data, uint64_t seed, struct click_baseline *baseline,
                         struct error *error)
{
    const double most_reads = 5e7;  // up to two minutes
    const double reads = (double)data->clicks.occurrences + (double)data->train * (double)click_data_numbers(data);
    struct click_regression regression;
    *baseline = (struct click_baseline){ .majority = NAN, .auc = NAN };
    if (data->held == 0)
        return true;
    baseline->majority = majority_right(data, 2);
    if (reads > most_reads)
        return true;
    struct scored *scored = malloc((data->train + data->held) * sizeof *scored);
    if (!scored)
        return error_no_memory(error, "the scores of clicks");
    const bool good = click_regression_open(&regression, data, error);
    if (good)
        choose_and_train(&regression, seed, scored, baseline);
    click_regression_close(&regression);
    free(scored);
    return good;
}
