// Chains of downsets as plans: what a chain's stages take, and the plans with these stages,
// which differ in what they recompute.
#ifndef PARTITIONER_ORDERS_ORDER_CHAIN_H
#define PARTITIONER_ORDERS_ORDER_CHAIN_H

#include "partitioner/orders/orders.h"

struct order_chain {
    struct orders *orders;
    uint32_t *at;                 // downsets, stages + 1 of them
    struct cost_row *rows;        // of what is decided; the rest takes no time
    struct pattern_stage *as;     // likewise
    const struct order_stage **of;
    const struct order_choice **choice;
    uint64_t *bytes, *workspace;  // per rank, of the choices so far
    uint64_t left;                // plans that may still be tried under these stages
    struct error *error;
    bool failed;
};

bool order_chain_create(struct order_chain *chain, struct orders *orders, struct error *error);
void order_chain_clear(struct order_chain *chain);

// Sets stage s, from at[s] to at[s + 1], with what it recomputes.
void order_chain_set(struct order_chain *chain, uint32_t s, struct order_stage *of, uint64_t recompute_ns);

// What no plan can beat whose stages up to `s` are set; 0 where nothing is known.
uint64_t order_chain_bound(struct order_chain *chain, uint32_t s);

// All stages are set, and no plan of them is below `bound_ns`: tries all that could be better
// than the best; what is left out is noted as lost.
void order_chain_finish(struct order_chain *chain, uint64_t bound_ns);

bool order_chain_no_memory(struct order_chain *chain);  // false

#endif
