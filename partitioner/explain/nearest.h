// If nothing fits a request: the nearest requests that something fits. Each of them has been planned.
//
//     more memory       the least on each device: exact to a tensor (256 bytes) if that is certain, else to 1/64 of it
//     micro-batches     the most that fit, fewer than requested: for schedules that keep all of them
//     ranks             the next number, on devices like the last if the cluster has no more; once it is not certain
//                       that fewer are too few, twice and four times as many
//     schedule          schedules with the same weight semantics that fit: the quickest three
//     sharding, host    what replicas share, what is on the host: the first step that is enough
//     optimizer         the first with less state that fits
//
// If one step less is known not to fit, `is_least` is set.
#ifndef PARTITIONER_EXPLAIN_NEAREST_H
#define PARTITIONER_EXPLAIN_NEAREST_H

#include "partitioner/explain/what_if.h"

// Units of work for each of the plans that are shown. Once all of them together took NEAREST_WORK, each gets
// PROBE_BUDGET. Whether anything fits at all is asked more often and takes little work (`any` of search.h). For
// profiles with more than NEAREST_ALL_ORDERS layers it is asked for the profile's own order alone.
#define NEAREST_BUDGET 200000
#define NEAREST_ALL_ORDERS 64

struct nearest_request {
    const struct search_request *search;  // it has no plan; its budget is not used
    uint64_t budget;                      // 0: NEAREST_BUDGET
    uint64_t deadline_ns;                 // time for everything: the answer is what was found by then; 0: no deadline
    const volatile sig_atomic_t *interrupted;  // or NULL
    void (*progress)(void *self, size_t done);  // called before each plan; may be NULL
    void *self;
};

struct nearest {
    struct what_if *at;  // in the order above
    size_t count;
    size_t planned;      // how many requests were planned to find them
    bool failed[WHAT_IF_KINDS];  // kinds of which some requests were tried and none fits
    bool open[WHAT_IF_KINDS];    // those of these kinds of which one may fit nevertheless
};

// Finds the nearest requests. False only for a failure of the machine. nearest_clear() frees the result.
bool nearest_find(const struct nearest_request *request, struct nearest *nearest, struct error *error);
void nearest_clear(struct nearest *nearest);

// Prints a table for people; nothing if there are none.
void nearest_print(const struct nearest *nearest, struct text *text);

#endif
