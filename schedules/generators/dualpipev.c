// DualPipeV: two stages per rank, on a V, and a forward of one together with a
// backward of the other, so that the messages of each hide behind the other's work.
//
//     (1)   F F ...                         2 (p - 1 - r) forwards of the first stage
//     (2)   F f F f ...                     r + 1 of both in turns
//     (3)   i w f i w f ...                 p - 1 - r backwards of the second, split, and its next forward
//     (4)   (F;b)(f;B)(F;b)(f;B) ...        m - 2p + r + 1 times: both ways at once
//     (5)   b (f;B) b (f;B) ...             p - 1 - r times, without new forwards of the first
//     (6)   b B b B ... i I i I             r + 1 of both; the later half split, so that gradients hurry
//     (7)   w I w I ...                     p - 1 - r of the first, between W's that were left
//     (8)   w w W W                         what is left
//
//     rank 0   F0 F1 F2 f0 i0 w0 f1 (F3;b1) (f2;B0) b2 (f3;B1) b3 I2 W2 I3 W3             p = 2, m = 4; second
//     rank 1   F0 f0 F1 f1 F2 b0 (f2;B0) (F3;b1) (f3;B1) b2 B2 i3 I3 w3 W3                stages in small letters
//
// DualPipe (dualpipe.c) has the same steps, with two copies of the weights instead
// of two stages.
#include "schedules/generators/generators.h"

struct two_ways {
    struct schedule *schedule;
    uint32_t rank;
    const struct way *ways;            // the first and the second stage
    uint32_t forwards[2], backwards[2];  // how many have come
    size_t weights;                    // position in the list before which no I waits for its W
    uint32_t owed;                     // I's that do
};

enum { FIRST, SECOND };

static struct action next_action(struct two_ways *at, enum action_kind kind, int way)
{
    const uint32_t number = kind == ACTION_F ? at->forwards[way]++ : at->backwards[way]++;
    const struct way *through = &at->ways[way];
    at->owed += kind == ACTION_I;
    return (struct action){ .stage = (uint16_t)through->stage, .kind = (uint8_t)kind,
                            .micro_batch = through->micro_batch + number * through->stride };
}

static bool add(struct two_ways *at, enum action_kind kind, int way, struct error *error)
{
    return schedule_add(at->schedule, at->rank, next_action(at, kind, way), error);
}

static bool add_together(struct two_ways *at, int forward, struct error *error)
{
    struct action first = next_action(at, ACTION_F, forward);
    first.joined = 1;
    return schedule_add(at->schedule, at->rank, first, error) && add(at, ACTION_B, !forward, error);
}

// The W of the first I that waits for it, if one does.
static bool add_weights(struct two_ways *at, struct error *error)
{
    if (at->owed == 0)
        return true;
    const struct action *actions = at->schedule->lists[at->rank].at;
    while (actions[at->weights].kind != ACTION_I)
        at->weights++;
    struct action action = actions[at->weights++];
    action.kind = ACTION_W;
    at->owed--;
    return schedule_add(at->schedule, at->rank, action, error);
}

// Steps 1 to 3.
static bool fill(struct two_ways *at, uint32_t place, uint32_t after, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < 2 * after; i++)
        good = add(at, ACTION_F, FIRST, error);
    for (uint32_t i = 0; good && i <= place; i++)
        good = add(at, ACTION_F, FIRST, error) && add(at, ACTION_F, SECOND, error);
    for (uint32_t i = 0; good && i < after; i++)
        good = add(at, ACTION_I, SECOND, error) && add_weights(at, error) && add(at, ACTION_F, SECOND, error);
    return good;
}

// Steps 4 and 5. On the rank of the turn the first backward needs the forward before it, and cannot join one.
static bool go_on(struct two_ways *at, uint32_t times, uint32_t after, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < times; i++) {
        if (i == 0 && after == 0)
            good = add(at, ACTION_F, FIRST, error) && add(at, ACTION_B, SECOND, error);
        else
            good = add_together(at, FIRST, error);
        good = good && add_together(at, SECOND, error);
    }
    for (uint32_t i = 0; good && i < after; i++)
        good = add(at, ACTION_B, SECOND, error) && add_together(at, SECOND, error);
    return good;
}

// Steps 6 to 8. The r + 1 pairs of step 6 are split from their middle on; if that is within a pair, from its
// second half.
static bool drain(struct two_ways *at, uint32_t place, uint32_t after, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < 2 * (place + 1); i++)
        good = add(at, i <= place ? ACTION_B : ACTION_I, i % 2 == 0 ? SECOND : FIRST, error);
    for (uint32_t i = 0; good && i < after; i++)
        good = add_weights(at, error) && add(at, ACTION_I, FIRST, error);
    while (good && at->owed > 0)
        good = add_weights(at, error);
    return good;
}

bool generate_add_two_ways(struct schedule *schedule, uint32_t rank, const struct way ways[2], struct dual_place place,
                           struct error *error)
{
    struct two_ways at = { .schedule = schedule, .rank = rank, .ways = ways };
    const uint32_t after = place.ranks - 1 - place.place;
    return fill(&at, place.place, after, error)
        && go_on(&at, place.micro_batches - 2 * place.ranks + place.place + 1, after, error)
        && drain(&at, place.place, after, error) && generate_add_steps(schedule, rank, error);
}

struct schedule *generate_dualpipev(const struct generate_request *request, struct error *error)
{
    const uint32_t p = request->ranks, m = request->micro_batches;
    if (m < 2 * (uint64_t)p) {
        error_set(error, "dualpipev needs two micro-batches for each rank: %u or more, not %u", 2 * p, m);
        return NULL;
    }
    struct schedule *schedule = generate_v("dualpipev", request, error);
    bool good = schedule != NULL;
    for (uint32_t rank = 0; good && rank < p; rank++) {
        const struct way ways[2] = { { .stage = rank, .stride = 1 }, { .stage = 2 * p - 1 - rank, .stride = 1 } };
        good = generate_add_two_ways(schedule, rank, ways, (struct dual_place){ p, rank, m }, error);
    }
    return generate_done(schedule, good);
}
