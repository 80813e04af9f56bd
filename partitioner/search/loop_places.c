#include "partitioner/search/loop_places.h"

#include <stdlib.h>

bool loop_target_create(struct loop_target *target, const struct pattern *pattern, struct error *error)
{
    *target = (struct loop_target){ .pattern = pattern };
    target->shares = calloc((size_t)pattern->ranks + 2, sizeof target->shares[0]);
    return target->shares || error_no_memory(error, "a search");
}

void loop_target_clear(struct loop_target *target)
{
    free(target->shares);
    *target = (struct loop_target){ 0 };
}

// About what is left of the target for each micro-batch, once one went all the way.
void loop_target_set(struct loop_target *target, uint64_t ns, uint64_t all_ns)
{
    const struct pattern *pattern = target->pattern;
    const uint64_t left = ns > all_ns ? ns - all_ns : 0;
    target->ns = ns;
    for (uint32_t s = 0; s < pattern->ranks; s++) {
        const uint64_t idle = pattern->goes_on ? 1 : pattern->warm[s] / 2;
        const uint64_t times = pattern->counted > idle ? pattern->counted - idle : 1;
        target->shares[s + 1] = target->shares[s] + left / times;
    }
}

static bool is_beaten(const struct loop *loop, const struct loop *by)
{
    return by->stages == loop->stages && by->ns <= loop->ns && by->rounds <= loop->rounds
        && by->back_ns <= loop->back_ns;
}

static void remove_beaten(struct loop_place *place, const struct loop *by)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < place->count; i++)
        if (!is_beaten(&place->loops[i], by))
            place->loops[kept++] = place->loops[i];
    place->count = kept;
}

// Where there is no room, one that is as short as both stands for two; the last room is
// for loops of one stage, which takes `work_ns`, so that there always are two.
static void keep_loop(struct loop_place *place, struct loop loop, uint64_t work_ns)
{
    for (uint32_t i = 0; i < place->count; i++)
        if (is_beaten(&loop, &place->loops[i]))
            return;
    remove_beaten(place, &loop);
    if (place->count < (loop.stages == 1 ? MOST_LOOPS : MOST_LOOPS - 1)) {
        place->loops[place->count++] = loop;
        return;
    }
    for (uint32_t i = 0; i < place->count; i++) {
        struct loop *both = &place->loops[i];
        if (both->stages != loop.stages)
            continue;
        both->ns = loop.ns < both->ns ? loop.ns : both->ns;
        both->rounds = loop.rounds < both->rounds ? loop.rounds : both->rounds;
        both->back_ns = loop.back_ns < both->back_ns ? loop.back_ns : both->back_ns;
        return;
    }
    loop.stages = 1;
    loop.ns = work_ns;
    keep_loop(place, loop, work_ns);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void extend_turn(const struct loop_target *target, const struct table_edge *edge, struct loop loop,
                        const struct loop *old, struct loop_place *to)
{
    const struct pattern_stage *stage = &edge->stage;
    loop.ns = larger(old->ns, larger(stage->forward_ns, stage->forward_busy_ns));
    loop.back_ns = larger(old->back_ns, larger(stage->backward_ns, stage->backward_busy_ns));
    const uint64_t all = edge->before + loop.rounds;
    if (all + (target->pattern->counted - 1) * (loop.ns + loop.back_ns) < target->ns)
        keep_loop(to, loop, 0);
}

static void extend_loop(const struct loop_target *target, uint32_t s, const struct table_edge *edge, struct loop loop,
                        const struct loop *old, struct loop_place *to)
{
    const struct pattern *pattern = target->pattern;
    const uint64_t work = loop.ns, share = target->shares[s + 1 + old->stages] - target->shares[s + 1];
    if (pattern_can_loop(pattern, s) && old->ns + edge->way > share) {
        loop.ns += edge->way + old->ns;
        loop.stages += old->stages;
    }
    const uint64_t after = larger(loop.rounds - work, edge->way + edge->behind);
    if (pattern_stage_bound(pattern, s, &edge->stage, edge->before, after) < target->ns
        && pattern_loop_bound(pattern, s, loop.stages, loop.ns, edge->before, after, &edge->stage) < target->ns)
        keep_loop(to, loop, work);
}

void loop_place_extend(const struct loop_target *target, uint32_t s, const struct table_edge *edge, uint32_t end,
                       const struct loop_place *from, struct loop_place *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        const struct loop *old = &from->loops[i];
        const struct loop loop = { .ns = edge->stage.forward_ns + edge->stage.backward_ns, .end = end, .stages = 1,
                                   .rounds = old->rounds + edge->round, .next = (uint16_t)i };
        if (target->pattern->is_drained)
            extend_turn(target, edge, loop, old, to);
        else
            extend_loop(target, s, edge, loop, old, to);
    }
}

// --- the largest target that is ruled out -------------------------------------------------

// Steps become longer as long as they succeed.
bool loop_target_raise(const struct loop_asker *asker, uint64_t high_ns, uint64_t *low_ns)
{
    enum { PRECISION = 4096 };
    uint64_t asked = high_ns, step = 1 + high_ns / PRECISION;
    if (*low_ns >= high_ns || !asker->can_reach(asker->self, high_ns)) {
        *low_ns = high_ns;
        return false;
    }
    while (high_ns - *low_ns > 1 + high_ns / PRECISION && !asker->must_stop(asker->self)) {
        const uint64_t half = *low_ns + (high_ns - *low_ns) / 2;
        asked = *low_ns + step < half ? *low_ns + step : half;
        if (asker->can_reach(asker->self, asked)) {
            high_ns = asked;
        } else {
            *low_ns = asked;
            step *= 4;
        }
    }
    if (asked != high_ns)
        asker->can_reach(asker->self, high_ns);
    return true;
}
