// What somebody gives a search by hand: the devices of ranks, and layers that are to be on stages. Errors say what is
// wrong with it; whoever knows where it was given puts that in front ("--pin: ...").
#ifndef PARTITIONER_SEARCH_SEARCH_GIVEN_H
#define PARTITIONER_SEARCH_SEARCH_GIVEN_H

#include "partitioner/search/search.h"

// The devices of all ranks, which the request borrows: each one of the cluster's, and none twice. The request's ranks,
// replicas and variants are there already.
bool search_give_devices(struct search_request *request, const uint32_t *devices, size_t count, struct error *error);

// Puts a pin for the layer of this name, of so many bytes, behind the others; what stands before a "." in it is enough
// where that names one layer. A layer is on one stage.
bool search_give_pin(const struct profile *profile, const char *name, size_t length, uint32_t stage,
                     struct search_pin *pins, size_t *count, struct error *error);

#endif
