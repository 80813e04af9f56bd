// The inputs that a user gives to a search by hand: the devices of ranks, and layers that must be on given stages
// (pins). An order may be cut into segments, too. Errors say what is wrong with it. The caller, which knows where it
// was given, puts that in front ("--pin: ...").
#ifndef PARTITIONER_SEARCH_SEARCH_GIVEN_H
#define PARTITIONER_SEARCH_SEARCH_GIVEN_H

#include "partitioner/search/search.h"

// Sets the devices of all ranks, which the request borrows. Each must be one of the cluster's, and none may occur
// twice. The request must be complete otherwise, and search_resolve() done. False with an error.
bool search_give_devices(struct search_request *request, const uint32_t *devices, size_t count, struct error *error);

// Appends a pin for the layer with this name, which has `length` bytes. The part of a layer's name before a "." is
// enough if it names one layer. A layer can be on one stage only. False with an error.
bool search_give_pin(const struct profile *profile, const char *name, size_t length, uint32_t stage,
                     struct search_pin *pins, size_t *count, struct error *error);

// Cuts each stage of an order into segments (schedules/segments.h), so that each layer that reads what devices exchange
// begins one. These are 2 N + 1 if each stage has N layers of experts, and 2 with tables. If `into` says how many, they
// must be as many, unless no layer exchanges. The result has the form in which a plan holds an order (given_order.h).
// Freed by schedule_free(). NULL with an error.
struct schedule *search_give_segments(const struct profile *profile, const struct schedule *order,
                                      struct segmenting into, struct error *error);

#endif
