// Explains why a run took longer, or less long, than planned. Each cause is given by itself, in ns of the iteration.
//
// A cause is a set of measured values. The plan is simulated again with these in place of the planned values. The
// cause explains the resulting change of the iteration's time:
//
//     stage 1   its actions take their average measured time, per kind
//     link      messages between two ranks take their least measured time
//     exchange  what the devices of a stage exchange takes its average measured time: as messages to the next stage on
//               their own rank, or within the stage's actions
//     order     ranks do their actions in the measured order
//     noise     each action deviates from its planned time as much as it did from the average of its kind
//     gaps      ranks are idle between actions as long as they were, although they could have worked
//
// Causes overlap, so their sum need not be the difference. With all of them at once the plan takes `together_ns`;
// what is still missing then is unexplained.
#ifndef SCHEDULES_DEVIATION_H
#define SCHEDULES_DEVIATION_H

#include "schedules/compare/aligned.h"

// The average of the actions of one kind of a stage. Groups have a row of their own, for the stage of their first
// action.
struct deviation_row {
    uint32_t stage, kind;  // kind: that of an action, or CLASS_GROUP
    uint32_t count;
    uint64_t planned_ns, measured_ns;
};

enum cause_kind { CAUSE_STAGE, CAUSE_LINK, CAUSE_EXCHANGE, CAUSE_WITHIN, CAUSE_ORDER, CAUSE_NOISE, CAUSE_GAPS };

struct deviation_cause {
    enum cause_kind kind;
    uint32_t stage;     // CAUSE_STAGE, CAUSE_EXCHANGE, CAUSE_WITHIN
    uint32_t from, to;  // CAUSE_LINK: the first two ranks that use it
    // CAUSE_LINK, CAUSE_EXCHANGE: of a message; CAUSE_WITHIN: of all exchanges within an action; CAUSE_GAPS: sum of all
    uint64_t planned_ns, measured_ns;
    int64_t explains_ns;
};

struct deviation {
    uint64_t planned_ns, measured_ns, together_ns;
    struct deviation_row *rows;  // by stage and kind
    size_t row_count;
    struct deviation_cause *causes;  // those that explain most come first; causes that explain nothing are left out
    size_t cause_count;
};

// What the devices of a stage's group exchange within each F, B, I and R. Both 0: nothing is known.
struct stage_exchange {
    uint64_t planned_ns, measured_ns;
};

// `within`: of each stage; NULL: nothing is known.
bool deviation_find(const struct aligned *aligned, const struct stage_exchange *within, struct deviation *deviation,
                    struct error *error);
void deviation_clear(struct deviation *deviation);

// The name of the kind of a row: "F", "B", ..., "group".
const char *deviation_kind(uint32_t kind);
// The name of a cause: "stage", "link", "exchange" (of both kinds), "order", "noise", "gaps".
const char *cause_name(enum cause_kind kind);

#endif
