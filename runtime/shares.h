// What of a stage's weights a replica updates: all, or, where replicas share the optimizer's state (docs/memory.md:
// ZeRO), one share each, of which alone it keeps that state.
//
//     weights, gradients    |  share 0  |  share 1  |  share 2  |    on each replica
//     state of replica 1                | its moments           |    one behind the other, of its share only
//
// Shares are those that a reduction adds up (transport.h), whatever layers they cut through. Where blocks of a layer's
// numbers are updated together, or tensors, an edge moves back to where one begins, so that each is one replica's:
//
//     blocks of two layers   |0         |1         |2   |0         |1         |2         |3    |
//     even shares            |                     ^                     ^                     |
//     shares                 |                     |               |<----                      |
#ifndef RUNTIME_SHARES_H
#define RUNTIME_SHARES_H

#include "runtime/optimizer.h"

struct share {
    uint64_t first, count;  // elements of the stage's weights
    uint32_t copies;        // which own one each; 1: this one owns all
    uint64_t *edges;  // of whole blocks or tensors: where the share of each copy begins, and the end; NULL: even ones
    struct stage_part *parts;  // likewise: what it has of each layer, counted from its first element, and where the
    size_t part_count;         // state of that is in its own
    struct weir_tensor *tensors;  // of all parts
    struct exempt *exempt;  // those of the stage that are in it, counted from its first element
    size_t exempt_count;
};

// Which share a copy of a stage has, of so many elements in all.
bool share_open(struct share *share, const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies,
                struct error *error);
void share_close(struct share *share);

// Refuses one that is more than the stage's plan has counted, since layers have larger tensors than its profile says.
bool share_fits(const struct share *share, const struct stage *stage, enum optimizer_kind kind, struct error *error);

// The same without what takes memory: where it begins, and how many elements it has.
struct share share_range(const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies);

// Of numbers of all copies those that one has, and the first of them among its own. None, if it has none.
struct share_piece {
    uint64_t first, count, at;
};
// Of what is kept in blocks: scales of first moments, those of second ones, codes of first and of second moments; of
// tensors one piece, and each copy has them at their places among all.
enum { MOST_SHARE_PIECES = 4 };
struct share_pieces {
    struct share_piece at[MOST_SHARE_PIECES];
    size_t count;
};
// Of elements [first, first + count) of a stage.
struct share_pieces share_pieces(const struct share *share, uint64_t first, uint64_t count);
// Of the state that a stage's optimizer keeps in blocks, by bytes, of the layer whose own begins at `first`.
struct share_pieces share_block_pieces(const struct share *share, const struct stage *stage, uint64_t first);

// From a stage's buffers to those of the share; `state` is the share's already.
struct optimizer_buffers share_buffers(const struct share *share, enum precision precision,
                                       struct optimizer_buffers whole);

#endif
