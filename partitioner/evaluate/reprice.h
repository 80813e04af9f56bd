// A plan's decision (which layers are on which devices, and which are recomputed) under another profile, cluster,
// schedule or number of micro-batches than those it was made for. Also whether a plan fits, which its numbers do not
// say.
#ifndef PARTITIONER_EVALUATE_REPRICE_H
#define PARTITIONER_EVALUATE_REPRICE_H

#include "partitioner/search/search.h"

// The same decision, with every number as this request gives it. Layers are matched by their names, which must be
// those of the request's profile. A stage that is too large for its device is priced like any other; the request's
// pins must hold. The certificate says nothing yet: its bound is 0.
struct plan *plan_reprice(const struct plan *plan, const struct search_request *request, struct error *error);

// Whether the plan, which is of the request's profile, has the layers that the request pins on their stages. If so,
// the plan records these pins. The error (ERROR_ANSWER) names the first layer that is on another stage.
bool plan_take_pins(struct plan *plan, const struct search_request *request, struct error *error);

// Whether two plans of one model put the same layers on the same devices, and recompute the same.
bool plan_same_decision(const struct plan *a, const struct plan *b);

// Fills in what plan_predict() fills in, and a certificate that claims nothing.
bool plan_price(struct plan *plan, const struct profile *profile, struct error *error);

// The rank that lacks the most memory, and its first stage; or the machine whose host lacks the most.
struct plan_excess {
    bool is_host;
    size_t machine;
    uint32_t rank, stage, stages;  // the rank has this many stages of its own
    uint64_t needs_bytes, has_bytes;
    uint64_t lacks_bytes;  // 0: the plan fits
};

// With the memory that devices have in this cluster. A device that is not in the cluster lacks nothing.
bool plan_find_excess(const struct plan *plan, const struct cluster *cluster, struct plan_excess *excess,
                      struct error *error);

// "stage 1 needs 20.1 MiB, device1 has 16.0 MiB: 4.10 MiB too little"
void plan_say_excess(const struct plan *plan, const struct plan_excess *excess, struct text *text);

// Makes the certificate of a plan from that of a search of the same request, which did not make the plan. The
// search's bound is for plans of its own kind (a stage on every rank, in order). If the plan is quicker, or does not
// fit, no bound is claimed.
void plan_certify_by(struct plan *plan, const struct certificate *found, bool fits);

#endif
