#include "schedules/search/order_start.h"

bool order_start(const struct order_problem *problem, const uint64_t *slack_ns, uint32_t *ahead)
{
    uint64_t begin = 0;  // when the first I begins, from the start of the stage's first F
    bool good = true;
    for (uint32_t s = problem->stages; s-- > 0;) {
        const struct order_stage *stage = &problem->stage[s];
        const uint64_t f = stage->cost_ns[MOVE_F], most = problem_most_ahead(problem, s);
        if (s + 1 < problem->stages)
            begin += f + 2 * stage->after_ns + problem->stage[s + 1].cost_ns[MOVE_I];
        else
            begin = f;
        uint64_t count = f ? begin / f : most;
        count = count < 1 ? 1 : count > most ? most : count;
        uint64_t lost = begin - count * f;
        if (lost > slack_ns[stage->rank] && count < most) {
            begin += f - lost;
            lost = 0;
            count++;
        }
        good &= lost <= slack_ns[stage->rank];
        if (ahead)
            ahead[stage->rank] = (uint32_t)count;
    }
    return good;
}
