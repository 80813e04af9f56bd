// Piper's cost model. A stage of d replicas, each a group of t devices, runs every layer
// in one of its ways for t devices; with s the replicas of this stage and of all later ones
// together and N micro-batches it takes, for each micro-batch,
//
//     load = time / d  +  2 bytes / (d rate)  +  4 (d - 1) w / (d N rate)
//            |            |                      +- the replicas' gradients, w = parameter_bytes
//            |            +- what the ways receive and send along each edge to another stage,
//            |               forward and back
//            +- F and B of the ways, recomputation included
//
// and each of its devices holds saved_bytes ceil(s / d) + 2 w + workspace, summed over its
// layers. Communication is never overlapped and has no latency; d divides N, and s is at
// most N. Nothing is filled or drained: the objective is the largest load.
#ifndef PARTITIONER_OBJECTIVES_TPS_H
#define PARTITIONER_OBJECTIVES_TPS_H

#include "partitioner/objectives/cut_view.h"

// A layer's way to run; variant 0 is the layer itself.
struct tps_way {
    const struct profile_layer *layer;
    uint32_t variant, devices;
    uint64_t time_ns, parameter_bytes;
    uint64_t in_flight_bytes, fixed_bytes;  // of each micro-batch in flight, and besides
};

struct tps_way tps_way_of(const struct profile_layer *layer, uint32_t variant);

// The micro-batches of the request: as many as there are machines, unless it says.
uint32_t tps_micro_batches(const struct bottleneck_request *request, const struct cut_machines *machines);

// --- what stages cost, remembered ---------------------------------------------------------

struct tps_prices;
struct tps_prices *tps_prices_create(const struct cut_view *view, struct error *error);
void tps_prices_free(struct tps_prices *prices);

// The numbers of devices some layer has a way for, rising, up to the machines there are.
const uint32_t *tps_degrees(const struct tps_prices *prices, size_t *count);

// What the layers of a downset take at least: of machine time, in any way; of time, in
// their ways for a degree. And how many have no way for it.
uint64_t tps_work(const struct tps_prices *prices, uint32_t downset);
uint64_t tps_time(const struct tps_prices *prices, size_t degree, uint32_t downset);
uint64_t tps_lacking(const struct tps_prices *prices, size_t degree, uint32_t downset);

// The layers between two downsets on `replicas` groups of a degree, each with so many
// micro-batches in flight, ceil(s / d).
struct tps_stage {
    uint32_t inner, outer;
    uint32_t degree;  // its place among the degrees
    uint32_t replicas;
    uint32_t in_flight;
};

struct tps_price {
    double load;      // INFINITY where the stage does not fit
    uint32_t until;   // in flight so many, it costs no more; 0: unknown
    bool is_exact;    // else it costs at least this
};

bool tps_price(struct tps_prices *prices, const struct tps_stage *stage, struct tps_price *price, struct error *error);

// The same exactly, with the variant of each of its layers in `variant` (by number) unless
// that is NULL; remembered. Not exact where the choice was too large to be decided: then
// it costs at most this.
bool tps_price_exactly(struct tps_prices *prices, const struct tps_stage *stage, struct tps_price *price,
                       uint32_t *variant, struct error *error);

#endif
