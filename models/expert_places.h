// Experts that are split over members with rows of their own (shards.h). Each expert is on one member, or it is copied:
// all of them have it, and it takes on each the rows of that member's tokens. Router and shared expert are whole on
// each of them:
//
//     member 0 has tokens 0 .. 7 and experts 3, 0 2    ---+ rows to their experts,  +---   each token's sum, in the
//     member 1 has tokens 8 .. 15 and experts 3, 1 4   ---+ and what these give back+---   order of its choices
//
//     expert 3 is copied: its rows stay, and its gradients are added up over the members once an update
//
// Members choose for their own tokens, and gather what all of them have counted. Capacity, positions, shares and losses
// are therefore those of the whole micro-batch. An expert takes its rows in the order of the tokens, wherever they come
// from and wherever it is. So its bits, and those of its gradient, do not depend on the places. Copied experts are the
// exception: each member adds up a gradient of its own rows, and these are added up, as those of the router are.
#ifndef MODELS_EXPERT_PLACES_H
#define MODELS_EXPERT_PLACES_H

#include "models/layer_kind.h"

// The places in words: one word for each layer of experts of a model, or one for all, with slashes between them. The
// word `blocks` puts the first experts on the first member, as even as possible, and `dealt` puts expert e on member e
// modulo the members. Or a word names the member of each expert, or * for a copied one: 0+*+1+0. Behind all words there
// may be a colon and the most rows of a micro-batch for which a member has room, if experts are dropless: dealt:1500.
// False with the reason if they do not fit.
bool expert_places_read(const char *words, size_t members, const char *layer, struct expert_shape *experts,
                        struct error *error);

// How many experts this member has, and which they are: the copied ones in ascending order, then likewise its own.
// Without places it has all of them, or a shard has an equal share.
size_t layer_own_experts(const struct layer *layer);
size_t layer_copied_experts(const struct layer *layer);
size_t layer_own_expert(const struct layer *layer, size_t number);

#endif
