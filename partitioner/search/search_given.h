// The inputs that a user gives to a search by hand: the devices of ranks, and layers that must be on given stages
// (pins). Errors say what is wrong with it. The caller, which knows where it was given, puts that in front ("--pin:
// ...").
#ifndef PARTITIONER_SEARCH_SEARCH_GIVEN_H
#define PARTITIONER_SEARCH_SEARCH_GIVEN_H

#include "partitioner/search/search.h"

// Sets the devices of all ranks, which the request borrows. Each must be one of the cluster's, and none may occur
// twice. The request's ranks, replicas and variants must already be set. False with an error.
bool search_give_devices(struct search_request *request, const uint32_t *devices, size_t count, struct error *error);

// Appends a pin for the layer with this name, which has `length` bytes. The part of a layer's name before a "." is
// enough if it names one layer. A layer can be on one stage only. False with an error.
bool search_give_pin(const struct profile *profile, const char *name, size_t length, uint32_t stage,
                     struct search_pin *pins, size_t *count, struct error *error);

#endif
