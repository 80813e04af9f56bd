// The Pareto front of time against memory: how long an iteration takes with how much memory, over all memory limits
// and numbers of devices.
//
//     time
//      |  o                 1 device          Each o is a plan, the quickest of all whose
//      |  |___                                largest slab is no larger than its own. From
//      |      o____________                   right to left: plan with ample memory, then
//      |                                      with a byte less than that plan takes, and so
//      |    o        4 devices                on until nothing fits: the time changes just
//      |    |____                             where a plan's peak lies, so nothing between
//      |         o_________                   two plans is missed.
//      +------------------------- peak bytes of a device
//
// With a resolution, the limit goes down by at least that share of the last peak each time. It ends at the least
// memory in which anything fits. (If layers have several orders, it ends within an eighth of a step of that.) Plans
// that are closer together than the resolution may be missed.
//
// Every plan has the certificate of its search. If a plan is not proved, a better one may exist under that limit.
#ifndef PARTITIONER_SWEEP_PLAN_FRONT_H
#define PARTITIONER_SWEEP_PLAN_FRONT_H

#include "partitioner/search/search.h"

// Units of work for each plan, and the usual resolution in millionths of the memory.
#define FRONT_DEFAULT_BUDGET 100000
#define FRONT_DEFAULT_PPM 20000

// A deadline is for the whole front. Each number of devices has a share of it.
struct front_request {
    const struct search_request *search;  // `ranks` and the devices' memory are upper limits
    const uint32_t *ranks;                // numbers of devices, ascending; none: 1, 2, 4, ... and the request's
    size_t rank_count;
    uint32_t resolution_ppm;
    void (*progress)(void *self, uint32_t ranks, uint64_t limit_bytes);  // before each search; or NULL
    void *self;
};

struct front_point {
    struct plan *plan;
    uint64_t limit_bytes;     // memory of each device in the search that found the plan
    uint64_t peak_bytes;      // the largest slab of a rank
    bool is_on_front;         // no other point is as quick with no more devices and no more bytes
};

struct plan_front {
    const struct front_request *request;
    uint64_t budget;
    struct front_point *points;  // by ranks, ascending; then by memory, descending
    size_t count;
    char stopped[80];            // why it ended early, or empty
};

// Finds the front. It borrows the request, which must outlive it; front_free() frees it with its plans. NULL with the
// search's reason if nothing fits on any number of devices.
struct plan_front *front_find(const struct front_request *request, struct error *error);
void front_free(struct plan_front *front);

// front_recomputed() counts the layers of a stage that are recomputed. front_print_layers() prints how many layers
// the first `most` stages have. In "6 5 7+2 23", stage 2 has seven layers, two of which are recomputed.
uint32_t front_recomputed(const struct plan_stage *stage);
void front_print_layers(const struct plan *plan, size_t most, struct text *text);

// Writes the document (docs/formats/front.md).
void front_write(const struct plan_front *front, struct text *text);

// A table for people, and a picture (a self-contained SVG).
void front_print(const struct plan_front *front, struct text *text);
void front_draw(const struct plan_front *front, struct text *text);

#endif
