// Any bytes as a schedule document; then everything that can be asked of what was
// read: it is checked, lowered, counted, simulated and drawn. What check accepts
// must lower and simulate, and what is written must read back the same.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/check.h"
#include "schedules/lane_world.h"
#include "schedules/lower.h"
#include "schedules/lower_timed.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_UNITS = 20000, MOST_SIDE = 1000 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void write_and_read_again(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct text first = { 0 }, second = { 0 };
    schedule_write(schedule, &first);
    struct schedule *again = schedule_read(first.data, first.length, "written", &error);
    require(again != NULL);
    schedule_write(again, &second);
    require(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    schedule_free(again);
    text_clear(&first);
    text_clear(&second);
}

static bool simulate(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct cost_row *costs = calloc(schedule->stages, sizeof *costs);
    struct simulation simulation;
    struct timeline timeline = { 0 };
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        costs[stage] = (struct cost_row){ .forward_ns = stage % 3, .backward_ns = 2, .recompute_ns = 1, .output_bytes = 8 };
    const bool good = schedule_simulate(schedule, costs, NULL, &simulation, &timeline, &error);
    if (good) {
        struct text text = { 0 };
        timeline_draw_text(&timeline, &(struct text_chart){ .width = 60, .colours = true, .sides = true }, &text);
        timeline_draw_svg(&timeline, &(struct svg_chart){ .title = schedule->name, .messages = true }, &text);
        timeline_write_trace(&timeline, &text);
        simulation_write(&simulation, schedule, &text);
        text_clear(&text);
        simulation_clear(&simulation);
    }
    timeline_clear(&timeline);
    free(costs);
    return good;
}

static void count_slots(const struct schedule *lowered, bool must)
{
    struct error error = { 0 };
    struct slots *slots = calloc(lowered->stages, sizeof *slots);
    require(slots_count(lowered, slots, &error) || !must);
    free(slots);
}

// What the check lets pass can be run where messages hold their rank up; what it does not, cannot.
static void run_in_lanes(const struct schedule *schedule, enum lane_use use, bool runs)
{
    struct error error = { 0 };
    uint64_t iteration_ns;
    struct cost_row *costs = calloc(schedule->stages, sizeof *costs);
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        costs[stage] = (struct cost_row){ .forward_ns = stage % 3, .backward_ns = 2, .reduce_ns = 1 };
    struct lane_world *world = lane_world_create(schedule, costs, NULL, &(struct lane_rules){ .use = use, .capacity = 0 }, &error);
    require(runs == (world != NULL));
    require(!world || lane_world_run(world, NULL, &iteration_ns, &error));
    lane_world_free(world);
    free(costs);
}

// Receives right before their use, and one communicator for all.
static void judge_late(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct check_result result;
    const struct check_request request = { .capacity = 1, .receives = RECEIVES_LATE, .shared = true,
                                           .most_in_group = NCCL_MOST_IN_GROUP };
    require(schedule_check_as(schedule, &request, &result, &error));
    check_result_clear(&result);
}

// Receives when their message is made: whatever can run then needs no buffer and one communicator per pair of ranks.
static void judge_timed(const struct schedule *order)
{
    struct error error = { 0 };
    struct check_result result;
    struct cost_row *costs = calloc(order->stages, sizeof *costs);
    for (uint32_t stage = 0; stage < order->stages; stage++)
        costs[stage] = (struct cost_row){ .forward_ns = stage % 3, .backward_ns = 2, .reduce_ns = 1 };
    struct schedule *timed = schedule_lower_timed(order, costs, NULL, &error);
    require(timed != NULL);
    require(schedule_check_as(timed, &(struct check_request){ .shared = true }, &result, &error));
    require(result.ok && result.capacity == 0);
    check_result_clear(&result);
    schedule_free(timed);
    free(costs);
}

static void ask_everything(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct check_result result;
    require(schedule_check(schedule, 0, &result, &error));
    struct text text = { 0 };
    check_result_write(&result, &text);
    text_clear(&text);
    require(simulate(schedule) || !result.ok);
    run_in_lanes(schedule, LANES_ONE, result.ok);
    run_in_lanes(schedule, LANES_NONE, result.ok);
    judge_late(schedule);
    if (result.ok && !schedule->lowered)
        judge_timed(schedule);
    if (schedule->lowered) {
        count_slots(schedule, result.ok);
    } else {
        struct schedule *lowered = schedule_lower(schedule, &error);
        require(lowered || !result.ok);
        if (lowered)
            count_slots(lowered, true);
        schedule_free(lowered);
    }
    check_result_clear(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_read((const char *)data, size, "fuzz", &error);
    if (!schedule) {
        require(error.kind != ERROR_NONE && error.text[0]);
        return 0;
    }
    write_and_read_again(schedule);
    if (schedule->ranks <= MOST_SIDE && schedule->stages <= MOST_SIDE && schedule->route_count <= MOST_SIDE
        && (uint64_t)schedule->stages * schedule->micro_batches <= MOST_UNITS)
        ask_everything(schedule);
    schedule_free(schedule);
    return 0;
}
