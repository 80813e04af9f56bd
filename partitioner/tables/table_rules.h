// Rules by which other systems place tables, priced as our own placements are.
//
//     all rows        every table by rows over all members: HugeCTR's distributed slots (key % GPUs). A table with
//                     fewer rows than members is cut into the largest power of two
//     slot % members  table t whole on member t % members: HugeCTR's localized slots
//     longest first   every table whole, those that read longest first, each on the member that reads least so far and
//                     has room: what a person would do by hand
//     torchrec        TorchRec's GreedyProposer and GreedyPerfPartitioner
//
// What was taken from TorchRec (torchrec/distributed/planner): a table's options are table-wise (whole), column-wise
// (columns 2, 4, ..), row-wise (rows over all) and data-parallel (copied). A shard's score is the sum of its own
// times: here its reads and its messages, by our measured rates instead of its constants. Options are ordered by the
// score of their largest shard. The first proposal has each table's first option. Each further one gives the table
// with the largest shard in memory its next option, until none has one. A proposal is placed uniform options first;
// then all shards, those with the largest score first, on the device with the least sum of scores that has room. The
// proposal with the least largest sum is taken. Left out: table-row-wise options, and caches.
#ifndef PARTITIONER_TABLES_TABLE_RULES_H
#define PARTITIONER_TABLES_TABLE_RULES_H

#include "partitioner/tables/table_placement.h"

enum table_rule { RULE_ROWS, RULE_SLOTS, RULE_LONGEST_FIRST, RULE_TORCHREC, TABLE_RULES };
extern const char *const table_rule_names[];  // "all rows", "slot % members", "longest first", "torchrec", NULL

// Places all tables by a rule and gets their cost. False with an error of kind ERROR_ANSWER if that does not fit, and
// the error says what does not.
bool table_rule_place(const struct placement_problem *problem, enum table_rule rule, struct table_placement *placement,
                      struct placement_cost *cost, struct error *error);

#endif
