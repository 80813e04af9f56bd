// A lowered schedule that exchanges, run by several members of each rank with stages that only take time. The members
// are threads, with a link between every two of them.
#ifndef BENCH_MEMBER_RUN_H
#define BENCH_MEMBER_RUN_H

#include <pthread.h>
#include <stdio.h>

#include "bench/synthetic_run.h"
#include "common/number.h"
#include "runtime/shards/member_messages.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"

enum { MEMBER_STEPS = 5, MOST_MEMBERS = 32 };

struct member_run {
    const struct cost_row *costs;  // of each stage
    uint32_t members;
    struct link link;
    const struct exchange_part *parts;
    size_t part_count;
};

struct member {
    struct session *session;
    uint64_t times[MEMBER_STEPS];
    bool is_good;
    struct error error;
    pthread_t thread;
};

static inline void *run_member(void *argument)
{
    struct member *member = argument;
    member->is_good = synthetic_run_steps(member->session, member->times, MEMBER_STEPS, &member->error);
    return NULL;
}

static inline bool run_members(struct member *members, uint32_t count, struct error *error)
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

// The iteration time of the slowest member, as the median of five.
static inline bool member_run_measure(const struct member_run *run, const struct schedule *lowered,
                                      uint64_t *iteration_ns, struct error *error)
{
    struct device *device = device_open("cpu", error);
    const struct member_messages_settings between = { .schedule = lowered, .members = run->members, .device = device,
                                                      .link = &run->link, .parts = run->parts,
                                                      .part_count = run->part_count };
    struct member_messages *messages = device ? member_messages_create(&between, error) : NULL;
    struct synthetic *synthetic = calloc(lowered->stages, sizeof *synthetic);
    struct stage *stages = calloc(lowered->stages, sizeof *stages);
    struct member members[MOST_MEMBERS] = { { .session = NULL } };
    bool good = messages && ((synthetic && stages) || error_no_memory(error, "a benchmark"));
    if (good)
        synthetic_stages(run->costs, lowered->stages, synthetic, stages);
    for (uint32_t m = 0; good && m < run->members; m++) {
        const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .exchanged = messages, .member = m,
                                                   .optimizer = { .kind = OPTIMIZER_SGD } };
        members[m].session = session_create(lowered, stages, device, &settings, error);
        good = members[m].session != NULL;
    }
    good = good && run_members(members, run->members, error);
    *iteration_ns = 0;
    for (uint32_t m = 0; m < run->members; m++) {
        *iteration_ns = max_u64(*iteration_ns, members[m].times[MEMBER_STEPS / 2]);
        session_free(members[m].session);
    }
    member_messages_free(messages);
    device_close(device);
    free(synthetic);
    free(stages);
    return good;
}

// Prints measured and simulated time of an order, and sets their ratio. Frees the order.
static inline bool member_run_compare(const struct member_run *run, struct schedule *order, uint64_t *measured_ns,
                                      double *ratio, struct error *error)
{
    struct simulation simulation = { 0 };
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    const bool good = lowered && schedule_simulate(lowered, run->costs, NULL, &simulation, NULL, error)
                   && member_run_measure(run, lowered, measured_ns, error);
    *ratio = good ? (double)*measured_ns / (double)simulation.iteration_ns : 0;
    if (good)
        printf("%-22s %u members  measured %8.2f ms  simulated %8.2f ms  ratio %.4f\n", lowered->name, run->members,
               (double)*measured_ns / 1e6, (double)simulation.iteration_ns / 1e6, *ratio);
    fflush(stdout);
    simulation_clear(&simulation);
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

#endif
