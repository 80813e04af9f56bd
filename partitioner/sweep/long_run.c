#include "partitioner/sweep/long_run.h"

#include <math.h>

// --- the interval -----------------------------------------------------------------------------------------------

// The derivative of M (e^((t+d)/M) - 1) / t is 0 where (1 - x) e^(x + d/M) is 1, with x = t/M. It falls from above 1 to
// 0 as x grows from 0 to 1.
double long_run_interval_s(double mtbf_s, double checkpoint_s)
{
    double low = 0, high = 1;
    for (int i = 0; i < 100; i++) {
        const double x = (low + high) / 2;
        if (log1p(-x) + x + checkpoint_s / mtbf_s > 0)
            low = x;
        else
            high = x;
    }
    return low * mtbf_s;
}

// --- how many are broken ----------------------------------------------------------------------------------------

// The pipelines that train while so many devices are broken. Those without a broken device need not be whole before: a
// lost pipeline's devices stand in.
static double pipelines_with(const struct long_run *run, double broken)
{
    const double lost = broken <= run->spares ? 0 : ceil((broken - run->spares) / run->pipeline_devices);
    return lost < (double)run->speed_count && lost < run->pipelines ? run->pipelines - lost : 0;
}

static double speed_of(const struct long_run *run, double pipelines)
{
    return pipelines > 0 ? run->speeds[(size_t)(run->pipelines - pipelines)] : 0;
}

// The logarithm of how likely so many are broken, up to a common factor.
static double next_weight(const struct long_run *run, double weight, double broken)
{
    const double failures = pipelines_with(run, broken - 1) / run->pipelines / run->mtbf_s;
    return weight + log(failures * run->repair_s / broken);
}

// --- what that takes --------------------------------------------------------------------------------------------

// Adds a state that is there for a share of the time, in which pipelines train that fail every mtbf_s.
static void add_training(const struct long_run *run, double share, double pipelines, struct long_run_shares *shares)
{
    const double mtbf = run->mtbf_s * run->pipelines / pipelines, speed = speed_of(run, pipelines);
    const double interval = (double)shares->iterations * run->iteration_s / speed;
    const double all = mtbf * exp(run->restart_s / mtbf) * expm1((interval + run->checkpoint_s) / mtbf);
    shares->goodput += share * speed * interval / all;
    shares->fewer += share * (1 - speed) * interval / all;
    shares->checkpoints += share * run->checkpoint_s / all;
    shares->restarts += share * -expm1(-run->restart_s / mtbf);
}

// The share of the time that an elastic run takes to grow when a device is repaired.
static double growing(const struct long_run *run, double share, double broken)
{
    const double now = pipelines_with(run, broken);
    if (broken == 0 || now == 0 || pipelines_with(run, broken - 1) <= now)
        return 0;
    return share * broken / run->repair_s * (run->checkpoint_s + run->restart_s);
}

static struct long_run_shares shares_of(const struct long_run *run, uint64_t iterations)
{
    struct long_run_shares shares = { .iterations = iterations };
    double most = 0, sum = 0, weight = 0, broken = 0, growth = 0;
    for (; run->repair_s > 0 && pipelines_with(run, broken) > 0; broken++) {
        weight = next_weight(run, weight, broken + 1);
        most = fmax(most, weight);
    }
    const double last = broken;
    weight = 0;
    for (broken = 0; broken <= last; broken++) {
        weight = broken > 0 ? next_weight(run, weight, broken) : 0;
        sum += exp(weight - most);
    }
    for (broken = 0; broken <= last; broken++) {
        weight = broken > 0 ? next_weight(run, weight, broken) : 0;
        const double share = exp(weight - most) / sum, pipelines = pipelines_with(run, broken);
        growth += growing(run, share, broken);
        if (pipelines > 0)
            add_training(run, share, pipelines, &shares);
        else
            shares.waiting += share;
    }
    const double left = fmax(0, 1 - growth);
    shares.goodput *= left;
    shares.fewer *= left;
    shares.checkpoints *= left;
    shares.restarts = shares.restarts * left + fmin(growth, 1 - shares.waiting);
    shares.lost = fmax(0, 1 - shares.goodput - shares.fewer - shares.checkpoints - shares.restarts - shares.waiting);
    return shares;
}

struct long_run_shares long_run_shares(const struct long_run *run, uint64_t iterations)
{
    if (iterations > 0)
        return shares_of(run, iterations);
    const uint64_t fewer =
        (uint64_t)fmax(1, floor(long_run_interval_s(run->mtbf_s, run->checkpoint_s) / run->iteration_s));
    const struct long_run_shares low = shares_of(run, fewer), high = shares_of(run, fewer + 1);
    return low.goodput >= high.goodput ? low : high;
}
