// A crewing while it is looked for: its time, the paths that are known of its stages, and
// the cuts that keep these within a limit.
#ifndef PARTITIONER_LAYOUTS_CREWING_PARTS_H
#define PARTITIONER_LAYOUTS_CREWING_PARTS_H

#include "partitioner/layouts/arrangement_many.h"
#include "partitioner/layouts/arrangement_memory.h"
#include "partitioner/layouts/crew_time.h"

struct crewing {
    uint32_t stages;
    uint32_t *replicas, *cuts;
    uint64_t ns;
};

struct crewings {
    struct many *many;
    struct crew_clock *clock;
    enum crew_order order;
    struct arrangement_memory *memory;  // where not all surely fits
    uint64_t capacity;        // of a device for what is held and kept
    struct crew_stage *crew;
    uint32_t room;            // stages
    const uint32_t *devices;  // of each rank
    uint32_t ranks;
    uint64_t speed;           // of all devices; 0: they are unlike
    uint64_t *way;            // of a message over a cut: [level * (layers + 1) + cut]
    uint32_t *near_until;     // [level * devices + seat]: from there to here they are no further apart than that
    const char **variants;    // none, of each stage
    uint32_t *behind;         // how many stages of a good crewing begin at this seat or after it; devices + 1
    bool knows_behind;
    bool turns;               // ranks are so many that moves find little: paths that turn are known instead
    uint64_t rate_ns;         // of a micro-batch, where all ranks are busy
    uint64_t seed, work;
};

bool crewings_create(struct crewings *crewings, struct many *many, struct error *error);
void crewings_clear(struct crewings *crewings);
void crewings_sit(struct crewings *crewings, const uint32_t *devices, uint32_t ranks);

// What it takes.
uint64_t crewing_time(struct crewings *crewings, const struct crewing *crewing);

// Where a path can turn from the way back of an early micro-batch to the way in of one `room` later, or of a late one
// the other way around: in front of a stage, the ways in and back until there.
struct crew_turn {
    uint64_t around, tail;
    uint32_t room;
};

// What is known where a stage begins: of one micro-batch until here, and from here on back, with the ways; and of
// the stage before.
struct crew_front {
    uint64_t forward, backward;
    uint64_t tail;             // how long some stage in front adds up gradients after all in front of it could be done
    uint32_t seat, left;       // ranks in front, and from here on
    uint32_t first;
    uint32_t stages, room;     // room: micro-batches that the stage before is ahead; 0: there is none
    struct crew_stage before;
    struct crew_turn turns[3];  // the stage before, and where paths lose least
    uint32_t turn_count;
};

// A stage from there on, of so many ranks that begin and end so much later than its first.
struct crew_next {
    uint32_t ranks, behind;    // so many stages are behind it, or about
    uint64_t wait, wait_back;
    uint64_t speed;
};

// How many micro-batches the last rank of those that have most is behind the first.
uint32_t crew_between(uint32_t micro_batches, uint32_t ranks);

struct crew_next crew_next_of(const struct crewings *crewings, const struct crew_front *front, uint32_t ranks);
struct crew_stage crew_stage_of(const struct crewings *crewings, const struct crew_front *front,
                                const struct crew_next *next, uint32_t end);

// As many layers as keep its paths within the limit, looked for from a hint on, but at most so many; `front->first`
// where there are none. (The end of the chain is asked for by itself: a stage that ends there sends nothing on, so it may
// be within the limit where the layer before is not.)
uint32_t crew_furthest(const struct crewings *crewings, const struct crew_front *front, const struct crew_next *next,
                       uint64_t limit_ns, uint32_t hint, uint32_t most);

// Behind that stage.
void crew_go_on(const struct crewings *crewings, struct crew_front *front, const struct crew_stage *stage,
                uint32_t end);

// From then on about as many stages are expected behind a seat as this one has.
void crewings_expect(struct crewings *crewings, const struct crewing *crewing);

// Cuts it so that no path is longer than the least there can be, if that is within the limit. Times it.
bool crewing_cut(struct crewings *crewings, struct crewing *crewing, uint64_t limit_ns);

// Crewings whose stages keep their paths short, made stage by stage (crewing_reach.c).
struct crew_reach;
struct crew_reach *crew_reach_create(struct crewings *crewings, struct error *error);
void crew_reach_free(struct crew_reach *reach);

// Whether there are some within the limit. They are then numbered, up to the count, with gaps: false where none is.
bool crew_reach_within(struct crew_reach *reach, uint64_t limit_ns);
uint32_t crew_reach_count(const struct crew_reach *reach);
bool crew_reach_read(const struct crew_reach *reach, uint32_t which, struct crewing *to);

#endif
