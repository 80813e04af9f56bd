// Two stages against one thread: how much of the simulated speed-up is reached.
//
//     bench_pipeline [MODEL ROUNDS [DEVICE]]        cpu, cpu:bf16, ..
//
// The model is profiled right now, planned for one rank and for two (1f1b, 16 micro-batches), and both plans run in
// turns, step by step. Other load on the machine therefore affects both equally. The simulated speed-up is the ratio
// of the plans' iteration times, the measured one the ratio of the median steps. Needs two idle cores; each rank is
// pinned to one.
#include <stdio.h>
#include <stdlib.h>

#include "bench/model_run.h"
#include "common/ascending.h"

enum { ROUNDS_MOST = 1000, TURN = 4 };

struct side {
    struct model_run run;
    uint64_t times[ROUNDS_MOST * TURN];
};

static bool take_turn(struct side *side, size_t round, struct error *error)
{
    struct session *session = side->run.pipeline->session;
    if (!session_step(session, error))
        return false;
    for (size_t i = 0; i < TURN; i++) {
        if (!session_step(session, error))
            return false;
        side->times[round * TURN + i] = session_last(session)->iteration_ns;
    }
    return true;
}

static double median(struct side *side, size_t rounds)
{
    qsort(side->times, rounds * TURN, sizeof side->times[0], ascending_u64s);
    return (double)side->times[rounds * TURN / 2];
}

static bool compare(const char *name, size_t rounds, const char *device_name, struct error *error)
{
    struct side one = { 0 }, two = { 0 };
    struct device *device = device_open(device_name, error);
    const struct measure_options options = measure_usual_options();
    struct model *model = device ? model_from_spec(name, device_precision(device), error) : NULL;
    struct profile *profile = model ? measure_model(name, device, &options, NULL, error) : NULL;
    const bool is_half = device && device_precision(device) != PRECISION_FP32;
    const enum optimizer_kind optimizer = is_half ? OPTIMIZER_ADAMW_MASTER : OPTIMIZER_ADAMW;
    bool good = profile && model_run_open(&one.run, profile, model, device, 1, optimizer, error)
        && model_run_open(&two.run, profile, model, device, 2, optimizer, error);
    for (size_t round = 0; good && round < rounds; round++)
        good = take_turn(&one, round, error) && take_turn(&two, round, error);
    if (good) {
        const double one_ns = (double)one.run.plan->iteration_ns, two_ns = (double)two.run.plan->iteration_ns;
        const double simulated = one_ns / two_ns;
        const double single = median(&one, rounds), pair = median(&two, rounds), measured = single / pair;
        printf("%-10s one thread %8.1f ms (simulated %8.1f)   two stages %8.1f ms (simulated %8.1f)\n", name,
               single / 1e6, one_ns / 1e6, pair / 1e6, two_ns / 1e6);
        printf("%-10s speed-up %.3f, simulated %.3f: %.1f %% of it\n", name, measured, simulated,
               100 * measured / simulated);
    }
    model_run_close(&one.run);
    model_run_close(&two.run);
    profile_free(profile);
    model_free(model);
    device_close(device);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    bool good;
    const char *device = count > 3 ? arguments[3] : "cpu";
    if (count > 2) {
        const size_t rounds = strtoul(arguments[2], NULL, 10);
        good = rounds > 0 && rounds <= ROUNDS_MOST ? compare(arguments[1], rounds, device, &error)
                                                   : error_set(&error, "from 1 to %d rounds", ROUNDS_MOST);
    } else {
        good = compare("gpt-nano", 11, device, &error) && compare("gpt-10m", 3, device, &error);
    }
    return good ? 0 : fail(&error);
}
