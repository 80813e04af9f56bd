// Exchanges beside dense layers on many devices: ranks of tables-ahead whose layers only take time (synthetic.h), with
// eight members and a slow link between every two of them. An exchange takes as long as a dense forward and backward.
//
//     bench_exchange_members [MEMBERS]       default: 8
//
// It prints measured over simulated time, as the median of five iterations on the slowest member, for tables-ahead and
// for exchanges that each micro-batch waits for. Exits with 1 if the former takes less than 0.95 or more than 1.05 of
// the simulated time, or if it is less than 1.3 times as quick.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "bench/synthetic_run.h"
#include "common/number.h"
#include "runtime/shards/member_messages.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"

enum { MICRO_BATCHES = 16, STEPS = 5, MOST_MEMBERS = 32, SHARE = 12, LOOKUP_NS = 2000000, DENSE_NS = 6000000 };

// Shares are exchanged between the first stamp of a message and its end (synthetic.c writes one in 512 bytes).
static const struct exchange_part part = { .boundary = 0, .first = 64, .share = SHARE };
static const struct cost_row costs[2] = {
    { .forward_ns = LOOKUP_NS, .backward_ns = LOOKUP_NS, .step_ns = 1000000, .exchange_ns = 3 * DENSE_NS,
      .output_bytes = 512, .version_bytes = 256 },
    { .forward_ns = DENSE_NS, .backward_ns = 2 * DENSE_NS, .step_ns = 1000000, .version_bytes = 256 },
};

struct member {
    struct session *session;
    uint64_t times[STEPS];
    bool is_good;
    struct error error;
    pthread_t thread;
};

static void *run_member(void *argument)
{
    struct member *member = argument;
    member->is_good = synthetic_run_steps(member->session, member->times, STEPS, &member->error);
    return NULL;
}

static bool run_members(struct member *members, uint32_t count, struct error *error)
{
    uint32_t started = 0;
    while (started < count && pthread_create(&members[started].thread, NULL, run_member, &members[started]) == 0)
        started++;
    for (uint32_t m = 0; m < started; m++)
        pthread_join(members[m].thread, NULL);
    if (started < count)
        return error_no_memory(error, "the threads of a benchmark");
    for (uint32_t m = 0; m < count; m++)
        if (!members[m].is_good)
            return error_hand_on(error, &members[m].error);
    return true;
}

// The iteration time of the slowest member.
static bool measure(const struct schedule *lowered, uint32_t count, uint64_t *iteration_ns, struct error *error)
{
    struct device *device = device_open("cpu", error);
    const struct link link = { .bytes_per_second = SHARE * UINT64_C(1000000000) / (3 * DENSE_NS) };
    const struct member_messages_settings between = { .schedule = lowered, .members = count, .device = device,
                                                      .link = &link, .parts = &part, .part_count = 1 };
    struct member_messages *messages = device ? member_messages_create(&between, error) : NULL;
    struct synthetic synthetic[2] = { synthetic_from_costs(costs, 2, 0), synthetic_from_costs(costs, 2, 1) };
    const struct stage stages[2] = { synthetic_stage(&synthetic[0]), synthetic_stage(&synthetic[1]) };
    struct member members[MOST_MEMBERS] = { { .session = NULL } };
    bool good = messages != NULL;
    for (uint32_t m = 0; good && m < count; m++) {
        const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .exchanged = messages, .member = m,
                                                   .optimizer = { .kind = OPTIMIZER_SGD } };
        members[m].session = session_create(lowered, stages, device, &settings, error);
        good = members[m].session != NULL;
    }
    good = good && run_members(members, count, error);
    *iteration_ns = 0;
    for (uint32_t m = 0; m < count; m++) {
        *iteration_ns = max_u64(*iteration_ns, members[m].times[STEPS / 2]);
        session_free(members[m].session);
    }
    member_messages_free(messages);
    device_close(device);
    return good;
}

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

// Frees the order.
static bool compare(struct schedule *order, uint32_t members, uint64_t *measured_ns, double *ratio, struct error *error)
{
    struct simulation simulation = { 0 };
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    const bool good = lowered && schedule_simulate(lowered, costs, NULL, &simulation, NULL, error)
                   && measure(lowered, members, measured_ns, error);
    *ratio = good ? (double)*measured_ns / (double)simulation.iteration_ns : 0;
    if (good)
        printf("%-14s %u members  measured %8.2f ms  simulated %8.2f ms  ratio %.4f\n", lowered->name, members,
               (double)*measured_ns / 1e6, (double)simulation.iteration_ns / 1e6, *ratio);
    simulation_clear(&simulation);
    schedule_free(lowered);
    schedule_free(order);
    return good;
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
    const bool good = compare(schedule_generate("tables-ahead", 1, 2, MICRO_BATCHES, &error), members, &ahead_ns,
                              &ratio, &error)
                   && compare(in_turn(&error), members, &in_turn_ns, &other, &error);
    const double gain = (double)in_turn_ns / (double)ahead_ns;
    if (!good) {
        fprintf(stderr, "bench_exchange_members: %s\n", error.text);
        return (int)error.kind;
    }
    printf("tables-ahead is %.2f times as quick\n", gain);
    return !(ratio >= 0.95 && ratio <= 1.05 && gain >= 1.3);
}
