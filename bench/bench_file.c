// The time to read a schedule's file, check it, lower it, simulate it and count its steps. This is CPU time of one
// thread, best of several runs.
//
//     bench_file [FILE.csv]        without a file: zb-h1 on 32 ranks, 256 micro-batches
//
// bench/peers/compare_schedules.py reads the numbers and measures the same with PyTorch.
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "schedules/check.h"
#include "schedules/csv.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/unit_steps.h"

enum { RUNS = 5 };
enum part { READ, CHECK, LOWER, SIMULATE, STEPS, PARTS };
static const char *const part_names[PARTS] = { "read", "check", "lower", "simulate", "steps" };

struct bench {
    uint64_t best_ns[PARTS];
    size_t actions, lowered_actions;
    uint64_t steps;
};

// Ends a part that began at `since`; returns when the next one begins.
static uint64_t note(struct bench *bench, enum part part, uint64_t since)
{
    const uint64_t took = clock_thread_cpu_ns() - since;
    if (bench->best_ns[part] == 0 || took < bench->best_ns[part])
        bench->best_ns[part] = took;
    return clock_thread_cpu_ns();
}

static struct cost_row *unit_costs(uint32_t stages, struct error *error)
{
    struct cost_row *costs = calloc(stages, sizeof *costs);
    if (!costs)
        error_no_memory(error, "costs");
    for (uint32_t stage = 0; costs && stage < stages; stage++)
        costs[stage] = (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .backward_input_ns = 1,
                                          .backward_weight_ns = 1, .kept_forward_bytes = 1 };
    return costs;
}

static bool bench_lowered(struct bench *bench, const struct schedule *lowered, const struct cost_row *costs,
                          struct error *error)
{
    struct simulation simulation;
    uint64_t since = clock_thread_cpu_ns();
    if (!schedule_simulate(lowered, costs, NULL, &simulation, NULL, error))
        return false;
    since = note(bench, SIMULATE, since);
    simulation_clear(&simulation);
    const bool good = schedule_unit_steps(lowered, &bench->steps, error);
    note(bench, STEPS, since);
    bench->lowered_actions = schedule_action_count(lowered);
    return good;
}

static bool bench_order(struct bench *bench, const struct schedule *order, struct error *error)
{
    struct check_result result;
    uint64_t since = clock_thread_cpu_ns();
    if (!schedule_check(order, 0, &result, error))
        return false;
    since = note(bench, CHECK, since);
    check_result_clear(&result);
    struct schedule *lowered = schedule_lower(order, error);
    note(bench, LOWER, since);
    struct cost_row *costs = lowered ? unit_costs(order->stages, error) : NULL;
    const bool good = costs && bench_lowered(bench, lowered, costs, error);
    bench->actions = schedule_action_count(order);
    free(costs);
    schedule_free(lowered);
    return good;
}

static bool bench_text(struct bench *bench, const char *text, size_t length, struct error *error)
{
    bool good = true;
    for (int run = 0; good && run < RUNS; run++) {
        size_t passed_over;
        const uint64_t since = clock_thread_cpu_ns();
        struct schedule *order = csv_read(text, length, "file", &passed_over, error);
        note(bench, READ, since);
        good = order && bench_order(bench, order, error);
        schedule_free(order);
    }
    return good;
}

static char *usual_file(size_t *length, struct error *error)
{
    struct csv_left_out left_out;
    struct text text = { 0 };
    struct schedule *schedule = schedule_generate("zb-h1", 32, 1, 256, error);
    const struct csv_style style = { .line_feeds = true };
    const bool good = schedule && csv_write(schedule, &style, &text, &left_out, error);
    schedule_free(schedule);
    *length = text.length;
    return good ? text_take(&text, error) : NULL;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    struct bench bench = { .actions = 0 };
    size_t length;
    uint64_t sum_ns = 0;
    char *text = count > 1 ? text_load(arguments[1], &length, &error) : usual_file(&length, &error);
    if (!text || !bench_text(&bench, text, length, &error)) {
        fprintf(stderr, "bench_file: %s\n", error.text);
        free(text);
        return 3;
    }
    printf("%s: actions %zu, lowered %zu, steps %llu; ms:", count > 1 ? arguments[1] : "zb-h1 p=32 m=256",
           bench.actions, bench.lowered_actions, (unsigned long long)bench.steps);
    for (int part = 0; part < PARTS; part++) {
        printf(" %s %.3f", part_names[part], (double)bench.best_ns[part] / 1e6);
        sum_ns += part == STEPS ? 0 : bench.best_ns[part];
    }
    printf("; read to simulate %.3f\n", (double)sum_ns / 1e6);
    free(text);
    return 0;
}
