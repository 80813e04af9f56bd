#include "partitioner/layouts/crew_bound.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/holding_cost.h"
#include "partitioner/cost/stage_cost.h"

// Tables by stage and cut: [stage * (layers + 1) + cut].
struct sums {
    const struct crews *crews;
    uint64_t *after;    // F, B and messages of one micro-batch in the stages from this one on; layers from the cut
    uint64_t *before;   // B and messages on the way from the cut to stage 0, F and messages from stage `from` to it
    struct crew_worths *worths;  // of the stages before, with the cut behind them
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct link crew_better_link(struct link a, struct link b)
{
    const bool free = a.bytes_per_second == 0 || b.bytes_per_second == 0;  // bytes cost nothing
    return (struct link){ a.latency_ns < b.latency_ns ? a.latency_ns : b.latency_ns,
                          free ? 0 : larger(a.bytes_per_second, b.bytes_per_second) };
}

static uint64_t run_of(const struct crews *crews)
{
    return 3 * (uint64_t)crews->micro_batches;
}

uint64_t crew_within(uint64_t ns, uint32_t micro_batches, uint32_t stages)
{
    const uint64_t most = ((uint64_t)1 << 58) / (3 * (uint64_t)micro_batches + stages);
    return ns < most ? ns : most;
}

static uint64_t within(const struct crews *crews, uint64_t ns)
{
    return crew_within(ns, crews->micro_batches, crews->stage_count);
}

static uint64_t forward_of(const struct crews *crews, uint32_t s, uint32_t first, uint32_t end)
{
    const struct crewed_stage *stage = &crews->stages[s];
    return within(crews, stage_scaled_ns(stage->forward[end] - stage->forward[first], stage->speed_permille));
}

static uint64_t backward_of(const struct crews *crews, uint32_t s, uint32_t first, uint32_t end)
{
    const struct crewed_stage *stage = &crews->stages[s];
    return within(crews, stage_scaled_ns(stage->backward[end] - stage->backward[first], stage->speed_permille));
}

static uint64_t busy_behind(const struct crews *crews, uint32_t s, uint32_t cut)
{
    const struct crewed_stage *stage = &crews->stages[s];
    return s + 1 < crews->stage_count ? within(crews, transfer_ns(crews->cut[cut], stage->next.bytes_per_second, 0))
                                      : 0;
}

static uint64_t way_behind(const struct crews *crews, uint32_t s, uint32_t cut)
{
    const uint64_t latency = s + 1 < crews->stage_count ? within(crews, crews->stages[s].next.latency_ns) : 0;
    return busy_behind(crews, s, cut) + latency;
}

static uint64_t reduce_of(const struct crews *crews, uint32_t s, uint32_t first, uint32_t end)
{
    const struct crewed_stage *stage = &crews->stages[s];
    return within(crews, holding_reduce_ns(crews->holding, stage->copies, stage->weights[end] - stage->weights[first],
                                           stage->among));
}

// --- how often -----------------------------------------------------------------------

static uint64_t up(uint64_t count, uint32_t copies)
{
    return (count + copies - 1) / copies;
}

static uint64_t divisor_of(uint64_t a, uint64_t b)
{
    return b == 0 ? a : divisor_of(b, a % b);
}

struct crew_rest crew_rest_from(const struct crew_run *run, uint64_t i, bool is_forward)
{
    const uint64_t all = 3 * (uint64_t)run->micro_batches;
    const uint64_t own = all / run->copies + (i % run->copies < all % run->copies);
    if (i >= all)
        return (struct crew_rest){ 0 };
    const uint64_t most = up(run->ranks, run->copies), ahead = most < own ? most : own, left = own - i / run->copies;
    struct crew_rest rest = { .ahead = ahead, .is_forward = is_forward };
    rest.forwards = is_forward ? left : left > ahead ? left - ahead : 0;
    rest.backwards = !is_forward ? left : left + ahead - 1 < own ? left + ahead - 1 : own;
    return rest;
}

uint64_t crew_next_forward(const struct crew_run *run)
{
    const uint64_t updates = up(2 * (uint64_t)run->micro_batches, run->copies);
    const uint64_t own = up(3 * (uint64_t)run->micro_batches, run->copies), most = up(run->ranks, run->copies);
    return run->copies * (updates - 1 + (most < own ? most : own));
}

uint64_t crew_next_backward(const struct crew_run *run)
{
    return run->copies * up(2 * (uint64_t)run->micro_batches, run->copies);
}

uint64_t crew_late(const struct crew_run *first)
{
    const uint64_t all = 2 * (uint64_t)first->micro_batches;
    // Of the turn that the first F behind them waits for, all have come back.
    const uint64_t under_way = all % first->copies + (up(first->ranks, first->copies) - 1) * first->copies;
    return under_way < all ? under_way : all;
}

static struct crew_run run_at(const struct crews *crews, uint32_t s)
{
    struct crew_run run = { crews->micro_batches, crews->stages[s].copies, 0 };
    for (uint32_t t = s; t < crews->stage_count; t++)
        run.ranks += crews->stages[t].copies;
    return run;
}

static struct crew_rest rest_of(const struct crews *crews, uint32_t from, uint32_t s)
{
    const struct crew_run begun = run_at(crews, from), run = run_at(crews, s);
    const uint64_t all = run_of(crews), forward = crew_next_forward(&begun), backward = crew_next_backward(&begun);
    if (s < from || (s == from && forward >= all))
        return crew_rest_from(&run, backward, false);
    struct crew_rest rest = crew_rest_from(&run, forward, true);
    if (rest.forwards > 0 && s + 1 < crews->stage_count) {
        const uint32_t next = crews->stages[s + 1].copies;
        rest.messages = 1 + (all - 1 - forward) / (run.copies / divisor_of(run.copies, next) * next);
    }
    return rest;
}

// --- paths -----------------------------------------------------------------------------

static void fill_after(struct sums *sums)
{
    const struct crews *crews = sums->crews;
    const size_t row = (size_t)crews->layers + 1;
    for (size_t i = 0; i < (crews->stage_count + 1) * row; i++)
        sums->after[i] = UINT64_MAX;
    sums->after[crews->stage_count * row + crews->layers] = 0;
    for (uint32_t s = crews->stage_count; s-- > 0;) {
        for (uint32_t first = 0; first < crews->layers; first++) {
            uint64_t least = UINT64_MAX;
            for (uint32_t end = first + 1; end <= crews->layers && crews->can_cut[first]; end++) {
                const uint64_t rest = sums->after[(s + 1) * row + end];
                if (rest == UINT64_MAX)
                    continue;
                const uint64_t all = rest + 2 * way_behind(crews, s, end) + forward_of(crews, s, first, end)
                                   + backward_of(crews, s, first, end);
                least = all < least ? all : least;
            }
            sums->after[s * row + first] = least;
        }
    }
}

static void fill_before(struct sums *sums, uint32_t from)
{
    const struct crews *crews = sums->crews;
    const size_t row = (size_t)crews->layers + 1;
    for (size_t i = 0; i < (crews->stage_count + 1) * row; i++)
        sums->before[i] = UINT64_MAX;
    sums->before[0] = 0;
    for (uint32_t s = 0; s < crews->stage_count; s++) {
        for (uint32_t end = s + 1; end <= crews->layers; end++) {
            uint64_t least = UINT64_MAX;
            for (uint32_t first = s; first < end && crews->can_cut[end]; first++) {
                const uint64_t rest = sums->before[s * row + first];
                if (rest == UINT64_MAX)
                    continue;
                const uint64_t all = rest + backward_of(crews, s, first, end)
                                   + (s >= from ? forward_of(crews, s, first, end) : 0);
                least = all < least ? all : least;
            }
            sums->before[(s + 1) * row + end] =
                least == UINT64_MAX ? least : least + (s >= from ? 2 : 1) * way_behind(crews, s, end);
        }
    }
}

uint64_t crew_path(const struct crew_rest *rest, const struct crew_place *place)
{
    const uint64_t f = place->forward_ns, b = place->backward_ns, reduce = place->reduce_ns, before = place->before_ns;
    const uint64_t forwards = rest->forwards, backwards = rest->backwards, ahead = rest->ahead;
    if (backwards == 0)
        return 0;
    const uint64_t work = forwards * f + backwards * b;
    uint64_t most = larger(before + work + (backwards - 1) * reduce, work + backwards * reduce);
    if (!rest->is_forward)
        return most;
    const uint64_t after = place->after_ns, round = f + after + b, trips = 1 + (forwards - 1) / ahead;
    const uint64_t more = forwards > ahead ? forwards - ahead : 0, earlier = backwards > ahead ? backwards - ahead : 0;
    most = larger(most, before + round + more * f + (forwards - 1) * (b + reduce));
    most = larger(most, before + forwards * f + earlier * (b + reduce) + after + b);
    most = larger(most, before + trips * round + (trips - 1) * reduce
                            + (forwards - 1 - (trips - 1) * ahead) * (b + reduce));
    return rest->messages == 0 ? most : larger(most, before + round + (rest->messages - 1) * place->busy_ns);
}

// --- what plans are worth -----------------------------------------------------------------

bool crew_worths_beat(const struct crew_worths *worths, uint64_t most, uint64_t late)
{
    for (uint32_t i = 0; i < worths->count && worths->at[i].most <= most; i++)
        if (worths->at[i].late >= late)
            return true;
    return false;
}

// The two that are most alike become one that is better than both.
static void blend(struct crew_worths *worths)
{
    uint64_t least = UINT64_MAX;
    uint32_t at = 0;
    for (uint32_t i = 0; i + 1 < worths->count; i++) {
        const struct crew_worth *a = &worths->at[i], *b = &worths->at[i + 1];
        const uint64_t apart = b->most - a->most + b->late - a->late;
        at = apart < least ? i : at;
        least = apart < least ? apart : least;
    }
    worths->at[at].late = worths->at[at + 1].late;
    worths->count--;
    memmove(&worths->at[at + 1], &worths->at[at + 2], (worths->count - at - 1) * sizeof worths->at[0]);
}

void crew_worths_note(struct crew_worths *worths, uint64_t most, uint64_t late)
{
    uint32_t kept = 0, place = 0;
    if (crew_worths_beat(worths, most, late))
        return;
    for (uint32_t i = 0; i < worths->count; i++)
        if (worths->at[i].most < most || worths->at[i].late > late)
            worths->at[kept++] = worths->at[i];
    worths->count = kept;
    if (kept == CREW_MOST_WORTHS) {
        blend(worths);
        crew_worths_note(worths, most, late);
        return;
    }
    while (place < kept && worths->at[place].most < most)
        place++;
    memmove(&worths->at[place + 1], &worths->at[place], (kept - place) * sizeof worths->at[0]);
    worths->at[place] = (struct crew_worth){ most, late };
    worths->count++;
}

uint64_t crew_worths_least(const struct crew_worths *worths)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < worths->count; i++) {
        const struct crew_worth *at = &worths->at[i];
        const uint64_t worth = at->most > at->late ? at->most - at->late : 0;
        least = worth < least ? worth : least;
    }
    return least;
}

// --- all cuts -------------------------------------------------------------------------------

// By way of stage s with these layers; UINT64_MAX where no plan has them.
static uint64_t path_of(const struct sums *sums, const struct crew_rest *rest, uint32_t s, uint32_t first, uint32_t end)
{
    const struct crews *crews = sums->crews;
    const size_t row = (size_t)crews->layers + 1;
    const uint64_t before = sums->before[s * row + first], behind = sums->after[(s + 1) * row + end];
    if (before == UINT64_MAX || behind == UINT64_MAX)
        return UINT64_MAX;
    const struct crew_place place = {
        .forward_ns = forward_of(crews, s, first, end), .backward_ns = backward_of(crews, s, first, end),
        .reduce_ns = reduce_of(crews, s, first, end), .busy_ns = busy_behind(crews, s, end),
        .before_ns = before, .after_ns = behind + 2 * way_behind(crews, s, end),
    };
    return crew_path(rest, &place);
}

// What the messages over the cut behind a stage take, of which the shorter run's path may wait for each.
static uint64_t late_behind(const struct crews *crews, uint32_t s, uint32_t cut)
{
    const struct crewed_stage *stage = &crews->stages[s];
    if (s + 1 == crews->stage_count || stage->late == 0)
        return 0;
    return multiply_clamped(stage->late, transfer_ns(crews->cut[cut], stage->late_bytes_per_second, 0));
}

// Those that a link behind it carries in the rest of the run.
static uint64_t carried_behind(const struct crews *crews, uint32_t s, uint32_t cut)
{
    const struct crewed_stage *stage = &crews->stages[s];
    if (s + 1 == crews->stage_count || stage->carried == 0)
        return 0;
    return multiply_clamped(stage->carried,
                            within(crews, transfer_ns(crews->cut[cut], stage->carried_bytes_per_second, 0)));
}

static void take_stage(struct sums *sums, const struct crew_rest *rest, uint32_t s, uint32_t first, uint32_t end)
{
    const size_t row = (size_t)sums->crews->layers + 1;
    const struct crew_worths *before = &sums->worths[s * row + first];
    struct crew_worths *to = &sums->worths[(s + 1) * row + end];
    const uint64_t late = late_behind(sums->crews, s, end), carried = carried_behind(sums->crews, s, end);
    uint64_t path = UINT64_MAX;
    for (uint32_t i = 0; i < before->count; i++) {
        const uint64_t late_so_far = add_clamped(before->at[i].late, late);
        if (crew_worths_beat(to, before->at[i].most, late_so_far))
            continue;
        if (path == UINT64_MAX)
            path = larger(path_of(sums, rest, s, first, end), carried);
        if (path != UINT64_MAX)
            crew_worths_note(to, larger(before->at[i].most, path), late_so_far);
    }
}

static uint64_t least_worth(struct sums *sums, uint32_t from)
{
    const struct crews *crews = sums->crews;
    const size_t row = (size_t)crews->layers + 1;
    fill_before(sums, from);
    for (size_t i = 0; i < (crews->stage_count + 1) * row; i++)
        sums->worths[i].count = 0;
    crew_worths_note(&sums->worths[0], 0, 0);
    for (uint32_t s = 0; s < crews->stage_count; s++) {
        const struct crew_rest rest = rest_of(crews, from, s);
        for (uint32_t end = s + 1; end <= crews->layers; end++)
            for (uint32_t first = end; first-- > s;)
                take_stage(sums, &rest, s, first, end);
    }
    return crew_worths_least(&sums->worths[crews->stage_count * row + crews->layers]);
}

bool crew_bound(const struct crews *crews, uint64_t *bound_ns, struct error *error)
{
    const size_t cells = ((size_t)crews->stage_count + 1) * ((size_t)crews->layers + 1);
    struct sums sums = { .crews = crews };
    sums.after = calloc(cells, sizeof sums.after[0]);
    sums.before = calloc(cells, sizeof sums.before[0]);
    sums.worths = calloc(cells, sizeof sums.worths[0]);
    const bool good = sums.after && sums.before && sums.worths;
    *bound_ns = 0;
    if (good) {
        fill_after(&sums);
        *bound_ns = least_worth(&sums, 0);
    }
    for (uint32_t s = 1; good && s < crews->stage_count; s++) {
        if (crews->stages[s].copies == 1 && holding_is_plain(crews->holding))
            continue;
        const uint64_t own = least_worth(&sums, s);
        *bound_ns = own < *bound_ns ? own : *bound_ns;
    }
    free(sums.after);
    free(sums.before);
    free(sums.worths);
    return good || error_no_memory(error, "the bounds of a plan");
}
