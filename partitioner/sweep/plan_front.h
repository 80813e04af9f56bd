// The front: what an iteration takes against what it needs, over all memory limits
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
// With a resolution the limit goes down by at least that share each time, and ends at the
// least memory that anything fits in (where layers have several orders, within an eighth of
// that share of it): what lies closer together than that may be missed.
// Every plan has the certificate of its search; where it is not proved a better one may
// exist, under that limit.
#ifndef PARTITIONER_SWEEP_PLAN_FRONT_H
#define PARTITIONER_SWEEP_PLAN_FRONT_H

#include "partitioner/search/search.h"

// Units of work for each plan, and the usual resolution.
#define FRONT_DEFAULT_BUDGET 100000
#define FRONT_DEFAULT_PPM 20000

// A deadline is that of the whole: each number of devices has a share of it.
struct front_request {
    const struct search_request *search;  // of which `ranks` and the devices' memory are the most there may be
    const uint32_t *ranks;                // numbers of devices, ascending; none: 1, 2, 4, ... and the request's
    size_t rank_count;
    uint32_t resolution_ppm;
    void (*progress)(void *self, uint32_t ranks, uint64_t limit_bytes);  // before each search; or NULL
    void *self;
};

struct front_point {
    struct plan *plan;
    uint64_t limit_bytes;     // memory of each device in the search that found it
    uint64_t peak_bytes;      // the largest slab of a rank
    bool is_on_front;         // with as few devices and bytes no other point is as quick
};

struct plan_front {
    const struct front_request *request;
    uint64_t budget;
    struct front_point *points;  // by ranks, ascending; then by memory, descending
    size_t count;
    char stopped[80];            // why it ended early, or empty
};

// Borrows the request. NULL with the search's reason where nothing fits on any number of devices.
struct plan_front *front_find(const struct front_request *request, struct error *error);
void front_free(struct plan_front *front);

// How many layers of a stage are run again; and of the first `most` stages "6 5 7+2 23": of stage 2's seven layers two.
uint32_t front_recomputed(const struct plan_stage *stage);
void front_print_layers(const struct plan *plan, size_t most, struct text *text);

// The document (docs/formats/front.md).
void front_write(const struct plan_front *front, struct text *text);

// The table a person reads, and the picture (a self-contained SVG).
void front_print(const struct plan_front *front, struct text *text);
void front_draw(const struct plan_front *front, struct text *text);

#endif
