// Requests near one that nothing fits which something does fit: each has been planned.
//
//     more memory       the least on each device, to the tensor (256 bytes) where that is certain, else to 1/64 of it
//     micro-batches     the most, fewer than asked for: schedules that keep all of them
//     ranks             the next number, on devices like the last where the cluster has no more; once it is not
//                       certain that fewer are too few, twice and four times as many
//     schedule          those of the same weights that fit, the quickest three
//     sharding, host    what replicas share, what waits on the host: the first step that is enough
//     optimizer         the first with less state
//
// Where one step less is known not to fit, `is_least` says so.
#ifndef PARTITIONER_EXPLAIN_NEAREST_H
#define PARTITIONER_EXPLAIN_NEAREST_H

#include "partitioner/explain/what_if.h"

// Units of work for each of the plans that are shown, until all together took NEAREST_WORK; then they get
// PROBE_BUDGET. Whether something fits at all is asked more often, and takes little (`any` of search.h); of more layers
// than NEAREST_ALL_ORDERS it is asked of the profile's own order alone.
#define NEAREST_BUDGET 200000
#define NEAREST_ALL_ORDERS 64

struct nearest_request {
    const struct search_request *search;  // that has no plan; its budget is not used
    uint64_t budget;                      // 0: NEAREST_BUDGET
    uint64_t deadline_ns;                 // time for all of them: those found by then are the answer; 0: any
    const volatile sig_atomic_t *interrupted;  // or NULL
    void (*progress)(void *self, size_t done);  // called before each plan; or NULL
    void *self;
};

struct nearest {
    struct what_if *at;  // in the order above
    size_t count;
    size_t planned;      // how many requests were planned for them
    bool failed[WHAT_IF_KINDS];  // of which kinds some were, and none was found to fit
    bool open[WHAT_IF_KINDS];    // of which of these one may fit all the same
};

// False only for a machine's trouble. Cleared by nearest_clear().
bool nearest_find(const struct nearest_request *request, struct nearest *nearest, struct error *error);
void nearest_clear(struct nearest *nearest);

// The table a person reads: nothing where there are none.
void nearest_print(const struct nearest *nearest, struct text *text);

#endif
