// What every search needs of its request: whether it can be planned at all, its devices, its order of actions, and
// where the model may be cut.
#ifndef PARTITIONER_SEARCH_SEARCH_REQUEST_H
#define PARTITIONER_SEARCH_SEARCH_REQUEST_H

#include "partitioner/cost/predict.h"
#include "partitioner/search/search.h"
#include "schedules/generators/generate.h"

// The device of a rank that is one device.
static inline const struct cluster_device *search_device(const struct search_request *request, uint32_t rank)
{
    return &request->cluster->devices[request->layout.devices ? request->layout.devices[rank] : rank];
}

// Who makes the orders of the request's schedule.
bool search_generator(const struct search_request *request, struct generator *generator, struct error *error);

// Whether a schedule is one to offer for a model, where nobody names any: it trains, and cuts no sequences where there are
// none.
bool search_offers(const struct generator *generator, const struct profile *profile);

// The request's schedule for so many micro-batches, and the slots that its stages need.
struct schedule *search_order(const struct search_request *request, uint32_t micro_batches, struct error *error);
struct slots *search_slots(const struct search_request *request, struct error *error);

// F and B of an iteration, of all stages: beyond so many a simulation alone takes seconds.
#define SEARCH_MOST_ACTIONS (1u << 21)

// Whether the iteration has few enough actions to be planned or timed.
bool search_check_size(const struct search_request *request, struct error *error);

// What every search asks first, and which costs nothing: that, whether there are devices enough, and what else can be
// seen to be impossible.
bool search_check(const struct search_request *request, struct error *error);

// Whether the cluster's hosts have what all stages together leave there at least (ERROR_ANSWER if not).
bool search_check_host(const struct search_request *request, struct error *error);

// Whether the pins let a stage begin with this layer.
bool search_pins_allow(const struct search_request *request, uint32_t stage, uint32_t first);

// Whether there are stages that all of them allow.
bool search_check_pins(const struct search_request *request, const bool *can_cut, uint32_t stages,
                       struct error *error);

// In front of which layers a model can be cut, layers + 1 of them, freed by free().
// NULL where it cannot be cut into so many stages.
bool *search_cuts(const struct search_request *request, uint32_t stages, struct error *error);

// Says why, where nothing is known that no plan of the request can beat: more work would not tell.
void search_say_unbounded(const struct search_request *request, struct certificate *certificate);

// A plan of so many stages with all that the request says, and none of them set.
struct plan *search_begin_plan(const struct search_request *request, size_t stages, struct error *error);

#endif
