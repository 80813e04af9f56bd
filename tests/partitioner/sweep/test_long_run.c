#include "partitioner/sweep/long_run.h"

#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "tests/test.h"

static const double whole[] = { 1 };

#define HOUR 3600.0
#define DAY (24 * HOUR)

// Llama 3.1 405B on 16,384 devices (arXiv 2407.21783): 419 unexpected interruptions in 54 days. Checkpoints of weights
// and states, 14 bytes of a parameter, at 2 TB/s.
static const struct long_run llama = {
    .mtbf_s = 54 * DAY / 419, .checkpoint_s = 405e9 * 14 / 2e12, .restart_s = 600 + 405e9 * 14 / 2e12,
    .iteration_s = 20, .pipelines = 128, .pipeline_devices = 128, .speeds = whole, .speed_count = 1,
};

// --- event by event ---------------------------------------------------------------------------------------------

enum phase { TRAINS, SAVES, RESTARTS, WAITS };

struct world {
    const struct long_run *run;
    uint64_t seed;
    uint64_t iterations;
    double now, saved, since_s;  // time, work that is saved, and training time since then
    double left_s;               // of the phase
    double repaired[4096];       // when broken devices are back
    unsigned broken;
    unsigned pipelines;
    enum phase phase;
    int grows;
};

static double draw(struct world *world, double mean)
{
    return -mean * log1p(-random_unit(&world->seed));
}

static unsigned able(const struct world *world)
{
    const struct long_run *run = world->run;
    const unsigned all = run->pipelines * run->pipeline_devices + run->spares - world->broken;
    unsigned pipelines = all / run->pipeline_devices;
    if (pipelines > run->pipelines)
        pipelines = run->pipelines;
    return run->pipelines - pipelines < run->speed_count ? pipelines : 0;
}

static double speed(const struct world *world)
{
    return world->run->speeds[world->run->pipelines - world->pipelines];
}

static void train(struct world *world)
{
    world->phase = TRAINS;
    world->since_s = 0;
    world->left_s = (double)world->iterations * world->run->iteration_s / speed(world);
}

static void restart(struct world *world)
{
    world->pipelines = able(world);
    world->phase = world->pipelines > 0 ? RESTARTS : WAITS;
    world->left_s = world->run->restart_s;
    world->grows = 0;
}

static void save(struct world *world)
{
    world->phase = SAVES;
    world->left_s = world->run->checkpoint_s;
}

static void end_phase(struct world *world)
{
    if (world->phase == TRAINS) {
        save(world);
    } else if (world->phase == SAVES) {
        world->saved += world->since_s * speed(world);
        if (world->grows)
            restart(world);
        else
            train(world);
    } else {
        train(world);
    }
}

static void break_one(struct world *world)
{
    if (world->run->repair_s > 0) {
        assert_true(world->broken < 4096);
        world->repaired[world->broken++] = world->now + draw(world, world->run->repair_s);
    }
    restart(world);
}

static void repair(struct world *world, unsigned which)
{
    world->repaired[which] = world->repaired[--world->broken];
    if (world->phase == WAITS && able(world) > 0)
        restart(world);
    else if (world->phase == RESTARTS)
        world->pipelines = able(world);
    else if (world->phase != WAITS && able(world) > world->pipelines) {
        world->grows = 1;
        if (world->phase == TRAINS)
            save(world);
    }
}

// Work done in a time, as a share of what is done without failures.
static double simulated(const struct long_run *run, uint64_t iterations, uint64_t seed, double until)
{
    struct world world = { .run = run, .seed = seed, .iterations = iterations, .pipelines = run->pipelines };
    train(&world);
    while (world.now < until) {
        const double rate = (double)world.pipelines / run->pipelines / run->mtbf_s;
        const double failure = world.phase == WAITS ? INFINITY : draw(&world, 1 / rate);
        double step = fmin(failure, world.phase == WAITS ? INFINITY : world.left_s);
        int back = -1;
        for (unsigned i = 0; i < world.broken; i++)
            if (world.repaired[i] - world.now < step) {
                step = world.repaired[i] - world.now;
                back = (int)i;
            }
        world.now += step;
        world.left_s -= step;
        world.since_s += world.phase == TRAINS ? step : 0;
        if (back >= 0)
            repair(&world, (unsigned)back);
        else if (step == failure)
            break_one(&world);
        else
            end_phase(&world);
    }
    return world.saved / world.now;
}

static void agrees(const char *name, const struct long_run *run, double days)
{
    enum { SEEDS = 1000 };
    const struct long_run_shares shares = long_run_shares(run, 0);
    double sum = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        sum += simulated(run, shares.iterations, seed, days * DAY);
    if (fabs(shares.goodput - sum / SEEDS) > 0.01 * sum / SEEDS)
        fail_msg("%s: goodput %.5f, and %.5f event by event", name, shares.goodput, sum / SEEDS);
    const double all = shares.goodput + shares.fewer + shares.checkpoints + shares.lost + shares.restarts
        + shares.waiting;
    assert_true(fabs(all - 1) < 1e-9);
}

// --- tests --------------------------------------------------------------------------------------------------------

static void a_run_that_published_its_failures_makes_progress(void **state)
{
    (void)state;
    const struct long_run_shares shares = long_run_shares(&llama, 0);
    assert_true(shares.goodput >= 0.9 && shares.goodput < 0.95);
    agrees("405B", &llama, 54);
}

static void runs_event_by_event_agree(void **state)
{
    (void)state;
    struct long_run run = llama;
    run.checkpoint_s = 120;  // much is lost
    agrees("slow checkpoints", &run, 54);
    run.mtbf_s = 1200;
    agrees("a failure every 20 minutes", &run, 20);
    run = (struct long_run){ .mtbf_s = 5 * DAY, .checkpoint_s = 60, .restart_s = 300, .iteration_s = 4, .pipelines = 4,
                             .pipeline_devices = 8, .repair_s = DAY, .speeds = whole, .speed_count = 1 };
    agrees("waits for repairs", &run, 400);
    run.spares = 1;
    agrees("a spare", &run, 400);
    run.mtbf_s = DAY / 2;
    run.spares = 3;
    agrees("three spares", &run, 100);
}

static void elastic_runs_event_by_event_agree(void **state)
{
    (void)state;
    static const double speeds[] = { 1, 0.74, 0.5, 0.25 }, many[] = { 1, 0.99, 0.98, 0.97 };
    struct long_run run = { .mtbf_s = 3 * DAY, .checkpoint_s = 60, .restart_s = 300, .iteration_s = 4, .pipelines = 4,
                            .pipeline_devices = 8, .repair_s = DAY, .speeds = speeds, .speed_count = 4 };
    agrees("elastic, four pipelines", &run, 400);
    run.spares = 1;
    agrees("elastic with a spare", &run, 400);
    run.speed_count = 2;
    agrees("elastic, one may be lost", &run, 400);
    run = llama;
    run.repair_s = HOUR * 12;
    run.speeds = many;
    run.speed_count = 4;
    agrees("elastic, many pipelines", &run, 54);
}

// The higher-order formula of Daly 2006 (equation 37), and the loss of d/t + t/2M + R/M for small losses.
static void small_losses_are_dalys(void **state)
{
    (void)state;
    for (double ratio = 1e-6; ratio < 0.02; ratio *= 4) {
        const double m = 1e5, d = ratio * m, root = sqrt(2 * d * m), x = d / (2 * m);
        const double dalys = root * (1 + sqrt(x) / 3 + x / 9) - d;
        assert_true(fabs(long_run_interval_s(m, d) / dalys - 1) < 0.01);
        const struct long_run run = { .mtbf_s = m, .checkpoint_s = d, .restart_s = 10, .iteration_s = dalys / 1000,
                                      .pipelines = 1, .pipeline_devices = 1, .speeds = whole, .speed_count = 1 };
        const struct long_run_shares shares = long_run_shares(&run, 0);
        const double loss = d / dalys + (dalys + d) / 2 / m + 10 / m;
        assert_true(loss > 0.05 || fabs(1 - shares.goodput - loss) < 0.05 * loss);
        assert_true(llabs((long long)shares.iterations - 1000) <= 10);
    }
}

static void the_interval_is_the_best(void **state)
{
    (void)state;
    for (double d = 1; d < 2000; d *= 3) {
        struct long_run run = llama;
        run.checkpoint_s = d;
        const struct long_run_shares best = long_run_shares(&run, 0);
        for (uint64_t n = 1; n < 1000; n++)
            assert_true(long_run_shares(&run, n).goodput <= best.goodput + 1e-12);
    }
}

// Erlang's formula for lost calls, by its recursion.
static void waiting_is_erlangs(void **state)
{
    (void)state;
    struct long_run run = llama;
    run.repair_s = 24 * HOUR;
    const double load = run.repair_s / run.mtbf_s;
    double blocked = 1;
    for (uint32_t spares = 0; spares < 30; spares++) {
        blocked = load * blocked / (spares + 1 + load * blocked);
        run.spares = spares;
        const struct long_run_shares shares = long_run_shares(&run, 0);
        assert_true(fabs(shares.waiting - blocked) < 1e-9);
        run.repair_s = 0;
        assert_true(fabs(shares.goodput - (1 - blocked) * long_run_shares(&run, 0).goodput) < 1e-9);
        run.repair_s = 24 * HOUR;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_published_its_failures_makes_progress),
        cmocka_unit_test(runs_event_by_event_agree),
        cmocka_unit_test(elastic_runs_event_by_event_agree),
        cmocka_unit_test(small_losses_are_dalys),
        cmocka_unit_test(the_interval_is_the_best),
        cmocka_unit_test(waiting_is_erlangs),
    };
    return cmocka_run_group_tests_name("long_run", tests, NULL, NULL);
}
