// The facts that every search needs from its request: whether it can be planned at all, its devices, its order of
// actions, and where the model may be cut. A result of false or NULL comes with an error.
#ifndef PARTITIONER_SEARCH_SEARCH_REQUEST_H
#define PARTITIONER_SEARCH_SEARCH_REQUEST_H

#include "partitioner/cost/predict.h"
#include "partitioner/search/search.h"

// The device of a rank that consists of one device.
static inline const struct cluster_device *search_device(const struct search_request *request, uint32_t rank)
{
    return &request->cluster->devices[request->layout.devices ? request->layout.devices[rank] : rank];
}

// Looks up the request's schedule. False with `error` if there is no such schedule.
bool search_resolve(struct search_request *request, struct error *error);

// The generator that makes the orders of the request's schedule. Asserts that the request was resolved, and its
// schedule not changed since.
const struct generator *search_generator(const struct search_request *request);

// Whether a schedule should be offered for a model if none is named. It must train, and it must not split sequences
// if there are none.
bool search_offers(const struct generator *generator, const struct profile *profile);

// The request's schedule for so many micro-batches, and the slots that its stages need. The caller frees them, the
// slots by free().
struct schedule *search_order(const struct search_request *request, uint32_t micro_batches, struct error *error);
struct slots *search_slots(const struct search_request *request, struct error *error);

// The most F and B of an iteration, of all stages. With more, a simulation alone takes seconds.
#define SEARCH_MOST_ACTIONS (1u << 21)

// Whether the iteration has few enough actions to be planned or timed.
bool search_check_size(const struct search_request *request, struct error *error);

// The checks that every search makes first, and that cost nothing: the size, whether there are enough devices, and
// whatever else can be seen to be impossible.
bool search_check(const struct search_request *request, struct error *error);

// Whether the cluster's hosts have the least memory that all stages together need there (ERROR_ANSWER if not).
bool search_check_host(const struct search_request *request, struct error *error);

// Whether pins, and what ranks exchange, allow a stage to begin with this layer.
bool search_may_begin(const struct search_request *request, uint32_t stage, uint32_t first);

// Whether there are stages that all pins allow.
bool search_check_pins(const struct search_request *request, const bool *can_cut, uint32_t stages,
                       struct error *error);

// The first layer of kind `exchange`, if the order exchanges: in front of it the model is cut, so that vectors are
// exchanged by messages. 0: there is none.
uint32_t search_exchange_cut(const struct search_request *request);

// Whether the order exchanges and layers of experts are cut. Then each stage of the order from which this one was cut
// (schedules/segments.h) has as many layers that read rows, and each of these begins a stage.
bool search_has_segments(const struct search_request *request);

// How many layers read rows of experts: two for each layer of experts that is cut.
uint32_t search_rows_read(const struct profile *profile);

// In front of which layers a model can be cut, layers + 1 entries. The caller frees them by free(). NULL if it cannot
// be cut into so many stages.
bool *search_cuts(const struct search_request *request, uint32_t stages, struct error *error);

// If no lower bound is known for the request, says why in the certificate. More work would not find one.
void search_say_unbounded(const struct search_request *request, struct certificate *certificate);

// A plan of so many stages with everything that the request says; none of the stages is set.
struct plan *search_begin_plan(const struct search_request *request, size_t stages, struct error *error);

#endif
