// What stages cost, as one gives it for a schedule that does not say it itself:
//
//     18522us,18086us,9337us,601us     F, I, W and the latency of a message, of every stage
//     1,1,1,0                          the same without units, where only their relations matter
//     costs.json                       a row for each stage, or one for all (docs/formats/costs.md)
//
// Numbers without units may have decimals. All of them are scaled by the same whole
// number, so that they are whole: with F = I = W = 1 and a group of 2.5, 1 is 2 ns.
#ifndef SCHEDULES_COSTS_H
#define SCHEDULES_COSTS_H

#include "schedules/schedule.h"

struct costs {
    struct cost_row *rows;
    uint32_t count;       // of rows; 1 is for every stage
    bool has_latency;     // whether it says what messages take
    uint64_t latency_ns;
    uint64_t unit_ns;     // what 1 is, where the numbers have no units; 0 where they have
};

// Four quantities. `overlapped` is what an F takes together with a backward; NULL:
// one after the other. Errors do not name where the quantities were given. Freed by costs_clear(),
// as what costs_read() gives.
bool costs_parse(const char *quantities, const char *overlapped, struct costs *costs, struct error *error);

// A document of costs, or the costs in a schedule's document.
bool costs_read(const char *text, size_t length, const char *name, struct costs *costs, struct error *error);
void costs_clear(struct costs *costs);

// Makes a row for each stage of the one row for all. Fails if there are rows for another number of stages.
bool costs_spread(struct costs *costs, uint32_t stages, struct error *error);

// Bytes that every stage keeps of a micro-batch, after F and after I, in place of what its row says. What is not given
// stays as it is.
struct kept_bytes {
    bool has_forward, has_weight;
    uint64_t forward_bytes, weight_bytes;
};
void costs_keep(struct cost_row *rows, uint32_t stages, const struct kept_bytes *kept);

// "2.5": a time in these units, or, where they have names, as time_format() writes it.
const char *costs_format(uint64_t unit_ns, uint64_t ns, char *buffer);

#endif
