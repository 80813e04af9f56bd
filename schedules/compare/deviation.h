// Why a run took longer, or less long, than planned: each cause by itself, in ns of the iteration.
//
// A cause is a set of measured values. With it in the place of the planned ones the plan is simulated anew;
// what the iteration then takes more or less is what the cause explains:
//
//     stage 1   its actions take what they took on average, per kind
//     link      messages between two ranks take what they took at least
//     order     ranks do their actions in the order in which they did them
//     noise     each action takes as much more or less than planned as it did than its kind on average
//     gaps      ranks do nothing between actions for as long as they did, though they could
//
// Causes overlap, so they need not sum up: with all of them at once the plan comes to `together_ns`, and what
// is then still missing is unexplained.
#ifndef SCHEDULES_DEVIATION_H
#define SCHEDULES_DEVIATION_H

#include "schedules/compare/aligned.h"

// The actions of a kind of a stage, on average; groups have a row of their own, that of their first action's stage.
struct deviation_row {
    uint32_t stage, kind;  // kind: of an action, or CLASS_GROUP
    uint32_t count;
    uint64_t planned_ns, measured_ns;
};

enum cause_kind { CAUSE_STAGE, CAUSE_LINK, CAUSE_ORDER, CAUSE_NOISE, CAUSE_GAPS };

struct deviation_cause {
    enum cause_kind kind;
    uint32_t stage;     // CAUSE_STAGE
    uint32_t from, to;  // CAUSE_LINK: ranks, the first that use it
    uint64_t planned_ns, measured_ns;  // CAUSE_LINK: of a message; CAUSE_GAPS: all of them
    int64_t explains_ns;
};

struct deviation {
    uint64_t planned_ns, measured_ns, together_ns;
    struct deviation_row *rows;  // by stage and kind
    size_t row_count;
    struct deviation_cause *causes;  // what explains most comes first; those that explain nothing are not there
    size_t cause_count;
};

bool deviation_find(const struct aligned *aligned, struct deviation *deviation, struct error *error);
void deviation_clear(struct deviation *deviation);

// "F", "B", ..., "group": the kind of a row.
const char *deviation_kind(uint32_t kind);
// "stage", "link", "order", "noise", "gaps".
const char *cause_name(enum cause_kind kind);

#endif
