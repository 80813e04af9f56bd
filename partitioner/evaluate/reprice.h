// A plan's decision - which layers on which devices, which are recomputed - under
// another profile, cluster, schedule or number of micro-batches than those it was
// made for; and whether a plan fits, of which its numbers say nothing.
#ifndef PARTITIONER_EVALUATE_REPRICE_H
#define PARTITIONER_EVALUATE_REPRICE_H

#include "partitioner/search/search.h"

// The same decision, with every number as this request gives it. Layers are known by
// their names, which must be those of the request's profile. What is too
// large for its device is priced like everything else; pins are held. The certificate says
// nothing yet: its bound is 0.
struct plan *plan_reprice(const struct plan *plan, const struct search_request *request, struct error *error);

// Whether the plan, which is of the request's profile, has the layers that the request pins on their stages, which it then
// says of them. The error (ERROR_ANSWER) names the first that is not.
bool plan_take_pins(struct plan *plan, const struct search_request *request, struct error *error);

// Whether two plans of one model put the same layers on the same devices, and recompute the same.
bool plan_same_decision(const struct plan *a, const struct plan *b);

// Fills in what plan_predict() does, and a certificate that claims nothing.
bool plan_price(struct plan *plan, const struct profile *profile, struct error *error);

// The rank that lacks most, and its first stage; or the machine whose host does.
struct plan_excess {
    bool is_host;
    size_t machine;
    uint32_t rank, stage, stages;  // of so many stages of its own
    uint64_t needs_bytes, has_bytes;
    uint64_t lacks_bytes;  // 0: the plan fits
};

// On devices with the memory that they have in this cluster; one that it has not lacks nothing.
bool plan_find_excess(const struct plan *plan, const struct cluster *cluster, struct plan_excess *excess,
                      struct error *error);

// "stage 1 needs 20.1 MiB, device1 has 16.0 MiB: 4.10 MiB too little"
void plan_say_excess(const struct plan *plan, const struct plan_excess *excess, struct text *text);

// What a search of the same request says of a plan that it did not make. Its bound is
// one for plans of its own kind (a stage on every rank, in order); where the plan is
// quicker, or does not fit, none is claimed.
void plan_certify_by(struct plan *plan, const struct certificate *found, bool fits);

#endif
