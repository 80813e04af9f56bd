// A placement of tables on the members of a group, and what an iteration then takes.
//
// The members of a group each hold some tables, and own a share of a micro-batch's samples (all alike, rounded up).
// A table has one of these *ways*:
//
//     whole       on one member
//     rows k      a k-th of its rows on each of k members, which all hand on partial sums
//     columns k   a k-th of each row on each of k members
//     copied      on all members, which add up each other's gradients
//     host        whole in the host's memory. The rows that an iteration reads are fetched to one member, and brought
//                 back changed
//
// A way is made of *pieces*, one for each member that holds some of the table. The cost of an iteration is the
// slowest member's time plus the slowest link's time. For a member:
//
//     reads     for each of its pieces: micro_batches reads of the piece's ids, then one update of the rows that the
//               iteration has touched. An update reads and writes each row and its optimizer's state.
//               A device's speed scales both. Rows are dealt by a hash, so that parts of a table read alike.
//
// Between members, a piece of w bytes a sample sends share x w bytes to every other member in each forward, and gets
// as much back in each backward. A device has one way out and one way in. The same holds for each group of devices at
// a level of links beyond the first. An exchange takes a level's latency and the bytes of its busiest way:
//
//     exchange  at a level: 2 micro_batches (latency + share x peers x the largest w of a device or group / rate)
//
// where peers are the devices of other groups at that level. What a way in brings is never more than that, since it
// is made of shares of the same pieces. (Plans give each pair of devices a link of its own. In an exchange of all with
// all, a device has to send its messages one after the other.)
//
//     gather    once an iteration, every member sends every other the rows that its own samples have touched in
//               copied tables, with their numbers; at a level: latency + peers x bytes of its devices / rate
//     host      once an iteration: bytes of all fetched rows and states of a machine's members, there and back / rate
//
// Levels and hosts work side by side, so that the largest of these sums counts. A member needs memory for its pieces,
// the optimizer's rows, and the gradients of touched rows (each with its number). To that come what is dense, and what
// it sends and receives in a micro-batch.
#ifndef PARTITIONER_TABLES_TABLE_PLACEMENT_H
#define PARTITIONER_TABLES_TABLE_PLACEMENT_H

#include "common/arrays.h"
#include "partitioner/tables/table_set.h"
#include "profiler/cluster.h"

enum table_optimizer {
    TABLE_SGD,
    TABLE_ADAGRAD,       // as many numbers more as a row has
    TABLE_ADAGRAD_ROWS,  // 4 bytes a row, for a mean over its columns: tables are not split by columns with it
    TABLE_ADAM_ROWS,     // twice as many numbers as a row has
};
extern const char *const table_optimizer_names[];  // "sgd", ..., NULL

enum table_kind { TABLE_WHOLE, TABLE_ROWS, TABLE_COLUMNS, TABLE_COPIED, TABLE_HOST };
extern const char *const table_kind_names[];  // "whole", "rows", "columns", "copied", "host", NULL

enum { PLACEMENT_MOST_MEMBERS = 256, TABLE_MOST_WAYS = 24 };

// A way for a table, and what each of its pieces takes.
struct table_way {
    enum table_kind kind;
    uint32_t parts;           // pieces
    uint64_t read_ps;         // of an iteration, on a device with speed 1000
    uint64_t bytes;           // on its member
    uint64_t width_bytes;     // of a sample, as it is sent; 0 if copied
    uint64_t received_bytes;  // of a micro-batch, on every member: from all pieces
    uint64_t gathered_bytes;  // of an iteration, that every member sends to each other
    uint64_t moved_bytes;     // of an iteration, to and from the host
    uint64_t held_bytes;      // by the host
};

struct placement_level {
    uint32_t units;      // what has a way out and a way in: all devices, or all groups of the level below
    uint32_t unit_size;  // devices of each
    uint32_t peers;      // devices of other units that it sends to
    uint64_t latency_ps, bytes_per_second;
};

struct placement_problem {
    const struct table_set *set;
    const struct cluster *cluster;
    enum table_optimizer optimizer;
    uint32_t tables, members, machines, level_count;
    uint64_t share;  // samples of a member
    struct placement_level levels[CLUSTER_MOST_LEVELS];
    uint32_t *machine_of;    // of each member
    struct table_way *ways;  // TABLE_MOST_WAYS for each table, of which way_count are there
    uint32_t *way_count;
    struct arrays arrays;
};

// The ways of all tables. A way of which a piece fits on no member is left out. False with an error if the cluster is
// too large, or if a table has no way at all (ERROR_ANSWER).
bool placement_open(struct placement_problem *problem, const struct table_set *set, const struct cluster *cluster,
                    enum table_optimizer optimizer, struct error *error);
void placement_close(struct placement_problem *problem);

static inline const struct table_way *placement_way(const struct placement_problem *problem, uint32_t table,
                                                    uint32_t way)
{
    return &problem->ways[(size_t)table * TABLE_MOST_WAYS + way];
}

// Rows of a table on the host for which its member has room: as many again as an iteration reads, since some read more.
uint64_t placement_host_rows(const struct placement_problem *problem, uint32_t table);

// The way of this kind and number of pieces; way_count if the table has none.
uint32_t placement_find_way(const struct placement_problem *problem, uint32_t table, enum table_kind kind,
                            uint32_t parts);

struct table_placement {
    uint32_t *way;     // of each table
    uint32_t *member;  // [table * members + piece]
};

// Everything 0, among these arrays.
struct table_placement table_placement_create(const struct placement_problem *problem, struct arrays *arrays);
void table_placement_copy(const struct placement_problem *problem, struct table_placement *to,
                          const struct table_placement *from);

// Sums over the pieces that are placed, from which the cost follows.
struct placement_loads {
    uint64_t *read_ps, *bytes;  // of each member; `read_ps` is the block that all of these are in
    uint64_t *width_bytes;      // [level * members + unit]
    uint64_t *moved_bytes, *held_bytes;  // of each machine
    uint64_t received_bytes, gathered_bytes;
};

struct placement_loads placement_loads_create(const struct placement_problem *problem, struct arrays *arrays);
void placement_loads_reset(struct placement_loads *loads, const struct placement_problem *problem);

// Adds a piece on a member, and what the table takes of all members, once; or takes it away again.
void placement_add_piece(const struct placement_problem *problem, struct placement_loads *loads,
                         const struct table_way *way, uint32_t member);
void placement_drop_piece(const struct placement_problem *problem, struct placement_loads *loads,
                          const struct table_way *way, uint32_t member);
void placement_add_table(struct placement_loads *loads, const struct table_way *way);
void placement_sum(const struct placement_problem *problem, const struct table_placement *placement,
                   struct placement_loads *loads);

enum placement_link { LINK_NONE, LINK_LEVEL, LINK_HOST };

struct placement_cost {
    uint64_t read_ps, link_ps;  // the cost is their sum
    uint32_t slowest;           // member
    enum placement_link link;
    uint32_t level, unit;       // of the slowest link; the unit is a machine if it is a host's
};

struct placement_cost placement_cost(const struct placement_problem *problem, const struct placement_loads *loads);
uint64_t placement_total_ps(const struct placement_cost *cost);

// Whole nanoseconds, rounded up, as documents have them.
static inline uint64_t placement_ns(uint64_t ps)
{
    return ps / 1000 + (ps % 1000 > 0);
}

// The time of a member with these reads, and of a level whose busiest unit sends this width.
uint64_t placement_member_ps(const struct placement_problem *problem, uint32_t member, uint64_t read_ps);
uint64_t placement_level_ps(const struct placement_problem *problem, uint32_t level, uint64_t width_bytes,
                            uint64_t gathered_bytes);
uint64_t placement_host_ps(const struct placement_problem *problem, uint64_t moved_bytes);

// Bytes of a member, with what is dense and what it receives.
uint64_t placement_member_bytes(const struct placement_problem *problem, const struct placement_loads *loads,
                                uint32_t member);

// Whether everything fits; placement_fits() also says which member or machine is too small (ERROR_ANSWER).
bool placement_has_room(const struct placement_problem *problem, const struct placement_loads *loads);
bool placement_fits(const struct placement_problem *problem, const struct placement_loads *loads, struct error *error);

#endif
