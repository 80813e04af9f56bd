// Exchanges of one micro-batch beside the computation of another: dualpipev and zb-v with each stage in three segments
// (schedules/segments.h), between which the members of a rank exchange over slow links. All exchanges of a micro-batch
// take 0.3 of its computation. Layers only take time (synthetic.h). It compares orders in which two passes are open at
// a time with orders in which each pass waits for its own exchanges.
//
//     bench_overlap [RANKS [MEMBERS [ROUNDS]]]       default: 4 ranks of 2 members, 3 rounds
//
// It prints measured over simulated time, as the median of five iterations on the slowest member. Exits with 1 if the
// median of the rounds is not from 0.95 to 1.05 for passes in turns, or if these are less than 1.15 times as quick.
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "bench/member_run.h"
#include "common/ascending.h"
#include "schedules/generators/generate.h"

enum { SEGMENTS = 3, MOST_RANKS = 32, MOST_ROUNDS = 32, SHARE = 12 };
enum { SEGMENT_NS = 20000000, EXCHANGE_NS = 13500000 };  // 4 exchanges are 0.3 of F, I and W of 3 segments

struct overlap {
    uint32_t ranks;
    struct cost_row costs[2 * MOST_RANKS * SEGMENTS];
    struct exchange_part parts[2 * MOST_RANKS * SEGMENTS];  // a share behind each segment but a stage's last
    struct member_run run;
};

static void prepare(struct overlap *overlap, uint32_t ranks, uint32_t members)
{
    *overlap = (struct overlap){ .ranks = ranks };
    size_t count = 0;
    for (uint32_t s = 0; s < 2 * ranks * SEGMENTS; s++) {
        const bool exchanges = s % SEGMENTS + 1 < SEGMENTS;
        overlap->costs[s] = (struct cost_row){
            .forward_ns = SEGMENT_NS, .backward_ns = 2 * SEGMENT_NS, .backward_input_ns = SEGMENT_NS,
            .backward_weight_ns = SEGMENT_NS, .step_ns = 1000000, .exchange_ns = exchanges ? EXCHANGE_NS : 0,
            .output_bytes = 512, .kept_forward_bytes = 256, .kept_weight_bytes = 256, .version_bytes = 256,
        };
        if (exchanges)
            overlap->parts[count++] = (struct exchange_part){ .boundary = s, .first = 64, .share = SHARE };
    }
    overlap->run = (struct member_run){ .costs = overlap->costs, .members = members, .parts = overlap->parts,
                                        .part_count = count,
                                        .link = { .bytes_per_second = SHARE * UINT64_C(1000000000) / EXCHANGE_NS } };
}

static bool measure(const struct overlap *overlap, const char *name, uint32_t open, uint64_t *ns, double *ratio,
                    struct error *error)
{
    const struct generate_request request = { .ranks = overlap->ranks, .micro_batches = 4 * overlap->ranks,
                                              .into = { .segments = SEGMENTS, .open = open } };
    printf("%s  ", open == 1 ? "in turn   " : "overlapped");
    return member_run_compare(&overlap->run, schedule_generate_as(name, &request, error), ns, ratio, error);
}

static bool compare(const struct overlap *overlap, const char *name, uint32_t rounds, bool *is_good,
                    struct error *error)
{
    double ratios[MOST_ROUNDS], gains[MOST_ROUNDS], other;
    uint64_t ns, in_turn_ns;
    bool good = true;
    for (uint32_t i = 0; good && i < rounds; i++) {
        good = measure(overlap, name, USUAL_OPEN, &ns, &ratios[i], error)
            && measure(overlap, name, 1, &in_turn_ns, &other, error);
        gains[i] = good ? (double)in_turn_ns / (double)ns : 0;
    }
    if (!good)
        return false;
    qsort(ratios, rounds, sizeof ratios[0], ascending_doubles);
    qsort(gains, rounds, sizeof gains[0], ascending_doubles);
    const double ratio = ratios[rounds / 2], gain = gains[rounds / 2];
    printf("%s: measured over simulated %.4f (%.4f to %.4f), %.3f times as quick as in turn (%.3f to %.3f)\n", name,
           ratio, ratios[0], ratios[rounds - 1], gain, gains[0], gains[rounds - 1]);
    *is_good &= ratio >= 0.95 && ratio <= 1.05 && gain >= 1.15;
    return true;
}

static uint32_t number(int count, char **arguments, int at, uint32_t usual)
{
    return count > at ? (uint32_t)strtoul(arguments[at], NULL, 10) : usual;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    const uint32_t ranks = number(count, arguments, 1, 4), members = number(count, arguments, 2, 2);
    const uint32_t rounds = number(count, arguments, 3, 3);
    if (ranks < 2 || ranks > MOST_RANKS || members < 2 || members > MOST_MEMBERS || rounds < 1
        || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: bench_overlap [RANKS [MEMBERS [ROUNDS]]], from 2 to %d, 2 to %d and 1 to %d\n",
                MOST_RANKS, MOST_MEMBERS, MOST_ROUNDS);
        return ERROR_INPUT;
    }
    prctl(PR_SET_TIMERSLACK, 1);  // for new threads too: wake up when asked, not 50 us later
    struct overlap *overlap = malloc(sizeof *overlap);
    bool is_good = overlap || error_no_memory(&error, "a benchmark");
    if (overlap)
        prepare(overlap, ranks, members);
    const bool good = overlap && compare(overlap, "dualpipev", rounds, &is_good, &error)
                   && compare(overlap, "zb-v", rounds, &is_good, &error);
    free(overlap);
    return good ? !is_good : fail(&error);
}
