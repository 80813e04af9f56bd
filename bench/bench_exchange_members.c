// Exchanges beside dense layers on many devices: ranks of tables-ahead whose layers only take time (synthetic.h), with
// eight members and a slow link between every two of them. An exchange takes as long as a dense forward and backward.
//
//     bench_exchange_members [MEMBERS]       default: 8
//
// It prints measured over simulated time, as the median of five iterations on the slowest member, for tables-ahead and
// for exchanges that each micro-batch waits for. Exits with 1 if the former takes less than 0.95 or more than 1.05 of
// the simulated time, or if it is less than 1.3 times as quick.
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "bench/member_run.h"
#include "schedules/generators/generate.h"

enum { MICRO_BATCHES = 16, SHARE = 12, LOOKUP_NS = 2000000, DENSE_NS = 6000000 };

// Shares are exchanged between the first stamp of a message and its end (synthetic.c writes one in 512 bytes).
static const struct exchange_part part = { .boundary = 0, .first = 64, .share = SHARE };
static const struct cost_row costs[2] = {
    { .forward_ns = LOOKUP_NS, .backward_ns = LOOKUP_NS, .step_ns = 1000000, .exchange_ns = 3 * DENSE_NS,
      .output_bytes = 512, .version_bytes = 256 },
    { .forward_ns = DENSE_NS, .backward_ns = 2 * DENSE_NS, .step_ns = 1000000, .version_bytes = 256 },
};

static struct schedule *in_turn(struct error *error)
{
    static const struct action all[] = { { .stage = 0, .kind = ACTION_F }, { .stage = 1, .kind = ACTION_F },
                                         { .stage = 1, .kind = ACTION_B }, { .stage = 0, .kind = ACTION_B } };
    struct schedule *schedule = schedule_create("in turn", WEIGHTS_FLUSH, 1, 2, MICRO_BATCHES, error);
    bool good = schedule != NULL;
    for (uint32_t i = 0; good && i < 4 * MICRO_BATCHES; i++) {
        struct action action = all[i % 4];
        action.micro_batch = i / 4;
        good = schedule_add(schedule, 0, action, error);
    }
    for (uint32_t stage = 0; good && stage < 2; stage++)
        good = schedule_add(schedule, 0, (struct action){ .stage = stage, .kind = ACTION_STEP,
                                                          .micro_batch = NO_MICRO_BATCH }, error);
    if (good) {
        schedule->exchanges = true;
        return schedule;
    }
    schedule_free(schedule);
    return NULL;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    const uint32_t members = count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 8;
    uint64_t ahead_ns = 1, in_turn_ns = 1;
    double ratio = 0, other;
    if (members < 2 || members > MOST_MEMBERS) {
        fprintf(stderr, "usage: bench_exchange_members [MEMBERS], from 2 to %d\n", MOST_MEMBERS);
        return ERROR_INPUT;
    }
    prctl(PR_SET_TIMERSLACK, 1);  // for new threads too: wake up when asked, not 50 us later
    const struct member_run run = { .costs = costs, .members = members, .parts = &part, .part_count = 1,
                                    .link = { .bytes_per_second = SHARE * UINT64_C(1000000000) / (3 * DENSE_NS) } };
    const bool good = member_run_compare(&run, schedule_generate("tables-ahead", 1, 2, MICRO_BATCHES, &error),
                                         &ahead_ns, &ratio, &error)
                   && member_run_compare(&run, in_turn(&error), &in_turn_ns, &other, &error);
    const double gain = (double)in_turn_ns / (double)ahead_ns;
    if (!good)
        return fail(&error);
    printf("tables-ahead is %.2f times as quick\n", gain);
    return !(ratio >= 0.95 && ratio <= 1.05 && gain >= 1.3);
}
