// The part of a stage's weights that a replica updates. It is all of them, or, if replicas share the optimizer state
// (docs/memory.md: ZeRO), one share each. A replica keeps the state of its own share only.
//
//     weights, gradients    |  share 0  |  share 1  |  share 2  |    on each replica
//     state of replica 1                | its moments           |    one after the other, for its share only
//
// Shares are those of a reduction (transport.h), whatever layers they cut. If blocks of a layer's numbers are updated
// together, or tensors, an edge moves back to the beginning of one, so that each belongs to one replica:
//
//     blocks of two layers   |0         |1         |2   |0         |1         |2         |3    |
//     even shares            |                     ^                     ^                     |
//     shares                 |                     |               |<----                      |
#ifndef RUNTIME_UPDATES_SHARES_H
#define RUNTIME_UPDATES_SHARES_H

#include "runtime/updates/optimizer.h"

struct share {
    uint64_t first, count;  // elements of the stage's weights
    uint32_t copies;        // replicas that own a share each; 1: this one owns all
    // If blocks or tensors are kept whole: where each copy's share begins, and the end; NULL: even shares
    uint64_t *edges;
    struct stage_part *parts;  // what the share has of each layer, counted from its first element; for whole blocks or
    size_t part_count;         // tensors also where the state of that is in the share's own,
    struct weir_tensor *tensors;  // and the tensors of all parts
    struct exempt *exempt;  // elements without decay within the share, counted from its first element
    size_t exempt_count;
};

// Finds the share that a copy of a stage has, of `count` elements in all. share_close() frees it.
bool share_open(struct share *share, const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies,
                struct error *error);
void share_close(struct share *share);

// Fails if the share is larger than the stage's plan has counted, because layers have larger tensors than its profile
// says.
bool share_fits(const struct share *share, const struct stage *stage, enum optimizer_kind kind, struct error *error);

// The same without what takes memory: only where the share begins, and how many elements it has.
struct share share_range(const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies);

// The numbers among those of all copies that one copy has, and the index of the first among its own. Count 0: none.
struct share_piece {
    uint64_t first, count, at;
};
// A share of blocks has four pieces: scales of first moments, scales of second moments, codes of first and of second
// moments. A share of tensors has one piece, which each copy keeps at the same place as in the whole.
enum { MOST_SHARE_PIECES = 4 };
struct share_pieces {
    struct share_piece at[MOST_SHARE_PIECES];
    size_t count;
};
// The pieces of elements [first, first + count) of a stage.
struct share_pieces share_pieces(const struct share *share, uint64_t first, uint64_t count);
// The same in bytes, for the state that a stage's optimizer keeps in blocks: of the layer whose state begins at
// `first`.
struct share_pieces share_block_pieces(const struct share *share, const struct stage *stage, uint64_t first);

// Turns a stage's buffers into those of the share; `state` already is the share's.
struct optimizer_buffers share_buffers(const struct share *share, enum precision precision,
                                       struct optimizer_buffers whole);

#endif
