// What stages cost, given separately for a schedule that has no costs of its own:
//
//     18522us,18086us,9337us,601us     F, I, W and the latency of a message, of every stage
//     1,1,1,0                          the same without units, where only their relations matter
//     costs.json                       a row for each stage, or one for all (docs/formats/costs.md)
//
// Numbers without units may have decimals. All of them are scaled by the same integer, which makes them integers:
// with F = I = W = 1 and 2.5 for a group, 1 is 2 ns.
#ifndef SCHEDULES_COSTS_H
#define SCHEDULES_COSTS_H

#include "schedules/schedule.h"

struct costs {
    struct cost_row *rows;
    uint32_t count;       // of rows; a single row is for every stage
    bool has_latency;     // whether a latency of messages is given
    uint64_t latency_ns;
    uint64_t unit_ns;     // how many ns the number 1 is, if the numbers have no units; 0 if they have
};

// Parses four quantities. `overlapped` is the time of an F and a backward that run together; NULL: they run one
// after the other. Errors do not say where the quantities were given. The result, like that of costs_read(), is
// freed by costs_clear().
bool costs_parse(const char *quantities, const char *overlapped, struct costs *costs, struct error *error);

// Reads a document of costs, or the costs in a schedule's document. `name` is that of the file, for errors.
bool costs_read(const char *text, size_t length, const char *name, struct costs *costs, struct error *error);
void costs_clear(struct costs *costs);

// Turns one row for all stages into a row for each. Fails if there are rows for another number of stages.
bool costs_spread(struct costs *costs, uint32_t stages, struct error *error);

// The bytes that every stage keeps of a micro-batch, after F and after I. They replace those of the cost rows; a
// number that is not given leaves the rows unchanged.
struct kept_bytes {
    bool has_forward, has_weight;
    uint64_t forward_bytes, weight_bytes;
};
void costs_keep(struct cost_row *rows, uint32_t stages, const struct kept_bytes *kept);

// Formats a time in these units, such as "2.5", or as time_format() does if `unit_ns` is 0. Returns `buffer`.
const char *costs_format(uint64_t unit_ns, uint64_t ns, char *buffer);

#endif
