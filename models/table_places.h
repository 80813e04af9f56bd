// Tables that are split over members with rows of their own (shards.h). Each table is on all members, on one of them,
// dealt out by rows, or cut by columns:
//
//     on all       each member has the whole table, and looks up the ids of its own samples only
//     on one       member 2 has it
//     by rows      with parts 0 .. n-1, row r is in part r % n
//     by columns   with n parts, each has columns / n columns of all rows
//
// A member looks up what it has for all samples of a micro-batch, and an all-to-all brings the vectors to the members
// whose samples they are. (HugeCTR calls tables on one member localized, and those by rows distributed.) The backward
// sends gradients the other way. Parts of a table have the gradients of the whole micro-batch, in the order of samples,
// and nothing is added up over members at an update.
//
//     member 0 has table a, for samples 0 1 | 2      ---+ all-to-all +---    samples 0 1 of tables a, b
//     member 1 has table b, for samples 0 1 | 2      ---+            +---    sample 2 of tables a, b
//
// *Units.* Vectors may be cut in different ways, so lookups are made by units of as many columns as all widths are
// multiples of. A part with c units of each row is a matrix with c times the rows, and an id names c of these. All
// members send as many units, some of which are empty.
#ifndef MODELS_TABLE_PLACES_H
#define MODELS_TABLE_PLACES_H

#include "models/layer_kind.h"

// The places in words: one word for each table, or one for all, with slashes between them. A word is `all`, the number
// of a member, or `slots` (table t is on member t modulo the members). Or it is `rows` or `columns`, perhaps with the
// members that have parts: rows0+2. Behind them may stand a room: slots:host5000. The parts are then in the host's
// memory, and each member's device has room for so many rows of units. If some words end with @host, only these tables
// are there: 0/rows@host:host5000. False with the reason if they do not fit the tables. table_places_room() is the room
// in such words; 0: there is none, or none that can be.
size_t table_places_room(const char *words);
bool table_places_read(const char *words, size_t members, const char *layer, struct table_shape *tables,
                       struct error *error);

// The part of a table that a member has. False: it has none.
struct table_part {
    size_t rows, first_row, row_step;  // row i is row first_row + i * row_step of the table
    size_t columns, first_column;
    size_t units;                      // of a row
    bool is_copy;                      // all members have it
    uint32_t number;                   // of the part, from 0
};
bool table_part(const struct layer_shape *shape, size_t slot, size_t member, struct table_part *part);

// A member's parameters are those of copied tables, then its other parts on the device, then those on the host. The
// first row of units of such a group among its rows.
enum part_group { PART_COPIED, PART_ON_DEVICE, PART_ON_HOST };
enum part_group table_part_group(const struct layer_shape *shape, size_t slot);
size_t table_group_first(const struct layer *layer, enum part_group group);

// Floats of a member's parameters that all members have: those of copied tables.
size_t table_places_common(const struct layer *layer);

// What `tables.c` does with places. The tensors of a member, the bytes that it keeps, and its passes.
void placed_tensors(const struct layer *layer, const char *const *names, struct tensor *tensors, size_t *count);
size_t placed_bags(const struct layer *layer);
struct bags placed_bags_of(const struct layer *layer, struct bags bags);  // of units, given those of whole tables
uint64_t placed_held_bytes(const struct layer *layer);  // between I and W, besides the ids
uint64_t placed_forward_bytes(const struct layer *layer);
uint64_t placed_input_bytes(const struct layer *layer);
// The most rows that a micro-batch names, of units and without copies. 0: all tables are copied.
size_t placed_touched_rows(const struct layer *layer);

// Numbers that a member has looked up, as they are exchanged: a share for each member, and behind them those of copied
// tables. With an exchange behind the tables they are what the tables hand on.
size_t placed_share(const struct layer *layer);
size_t placed_numbers(const struct layer *layer);

// The exchange of vectors. It is also that of the layer behind the tables (vector_exchange.c).
void placed_forward(const struct layer *layer, const struct layer_pass *pass, const struct bags *bags);
struct shard_part placed_vectors(const struct layer *layer, const struct layer_pass *pass);
void placed_assemble(const struct layer *layer, const struct layer_pass *pass);
void placed_spread_gradient(const struct layer *layer, const struct layer_pass *pass);
struct shard_part placed_gradients(const struct layer *layer, const struct layer_pass *pass);

#endif
