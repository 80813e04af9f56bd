#include "partitioner/stability/regret.h"

#include <stdlib.h>

#include "common/ascending.h"
#include "common/clock.h"
#include "common/number.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"

// A plan that the search finds for some draws.
struct candidate {
    const struct plan *plan;
    struct plan *own;      // the same plan if it is not the caller's
    uint32_t found;        // number of draws whose search found it
    uint64_t *times;       // its time in each draw
};

struct trial {
    const struct regret_request *request;
    struct noisy_profile noisy;
    struct search_request search;  // with the noisy profile
    uint64_t *best;                // per draw: the least known time
    uint32_t draws;                // draws that were made
    uint64_t until_ns;             // when all draws end; 0: when they are done
    struct candidate *candidates;  // the first is the plan whose regret is measured
    size_t count;
};

static bool is_ended(const struct trial *trial)
{
    return (trial->search.limits.interrupted && *trial->search.limits.interrupted)
        || (trial->until_ns && clock_now_ns() >= trial->until_ns);
}

// --- candidates ---------------------------------------------------------------------------

static bool add_candidate(struct trial *trial, const struct plan *plan, struct plan *own_plan, struct error *error)
{
    struct candidate *candidate = &trial->candidates[trial->count++];
    *candidate = (struct candidate){ .plan = plan, .own = own_plan };
    candidate->times = calloc(trial->request->draws + (size_t)1, sizeof candidate->times[0]);
    return candidate->times || error_no_memory(error, "the draws of a plan");
}

// Takes ownership of the plan of a draw.
static bool note_plan(struct trial *trial, struct plan *plan, bool gather, struct error *error)
{
    for (size_t c = 0; c < trial->count; c++) {
        if (plan_same_decision(trial->candidates[c].plan, plan)) {
            trial->candidates[c].found++;
            plan_free(plan);
            return true;
        }
    }
    if (gather)
        return add_candidate(trial, plan, plan, error);
    plan_free(plan);
    return true;
}

// Times a candidate at the times of the latest draw.
static bool time_candidate(struct trial *trial, size_t c, uint32_t draw, struct error *error)
{
    struct plan *repriced = plan_reprice(trial->candidates[c].plan, &trial->search, error);
    if (!repriced)
        return false;
    const uint64_t time = repriced->iteration_ns;
    plan_free(repriced);
    trial->candidates[c].times[draw] = time;
    trial->best[draw] = time < trial->best[draw] ? time : trial->best[draw];
    return true;
}

// --- draws --------------------------------------------------------------------------------

// Plans a draw anew, and times the given plan at it. If the search finds nothing, the given plan stays the best.
static bool run_draw(struct trial *trial, uint32_t draw, bool gather, struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage;
    noisy_profile_draw(&trial->noisy, trial->request->seed, draw);
    struct search_request request = trial->search;
    request.found.shortage = &shortage;
    const uint64_t now = clock_now_ns();
    if (trial->until_ns)
        request.limits.deadline_ns = trial->until_ns > now ? trial->until_ns - now : 1;
    struct plan *plan = plan_search(&request, &why);
    if (!plan && why.kind != ERROR_ANSWER)
        return error_hand_on(error, &why);
    trial->best[draw] = plan ? plan->iteration_ns : UINT64_MAX;
    return time_candidate(trial, 0, draw, error) && (!plan || note_plan(trial, plan, gather, error));
}

static bool run_draws(struct trial *trial, bool gather, struct error *error)
{
    const struct regret_request *request = trial->request;
    for (uint32_t draw = 0; draw < request->draws; draw++) {
        if (!run_draw(trial, draw, gather, error))
            return false;
        if (is_ended(trial))  // the plan of this draw may not be worth comparing with
            return true;
        trial->draws = draw + 1;
        if (request->progress)
            request->progress(request->self, draw + 1, request->draws);
    }
    return true;
}

static bool begin(struct trial *trial, const struct regret_request *request, const struct plan *plan,
                  struct error *error)
{
    *trial = (struct trial){ .request = request, .search = *request->search };
    trial->best = calloc(request->draws + (size_t)1, sizeof trial->best[0]);
    trial->candidates = calloc(request->draws + (size_t)1, sizeof trial->candidates[0]);
    if (!trial->best || !trial->candidates)
        return error_no_memory(error, "the draws of a plan");
    if (!noisy_profile_create(&trial->noisy, request->search->profile, request->noise, error))
        return false;
    trial->search.profile = trial->noisy.profile;
    if (!trial->search.limits.budget)
        trial->search.limits.budget = REGRET_DEFAULT_BUDGET;
    const uint64_t deadline_ns = request->search->limits.deadline_ns;
    trial->until_ns = deadline_ns ? add_clamped(clock_now_ns(), deadline_ns) : 0;
    return add_candidate(trial, plan, NULL, error);
}

static void end(struct trial *trial)
{
    for (size_t c = 0; c < trial->count; c++) {
        plan_free(trial->candidates[c].own);
        free(trial->candidates[c].times);
    }
    free(trial->candidates);
    free(trial->best);
    noisy_profile_clear(&trial->noisy);
}

// --- what they say ------------------------------------------------------------------------

// The median is the lower of two. The 95 % regret is the least value that at least 95 of 100 draws do not exceed.
static bool summarize(const struct trial *trial, size_t c, struct regret *regret, struct error *error)
{
    const uint32_t draws = trial->draws;
    *regret = (struct regret){ .draws = draws, .candidates = (uint32_t)trial->count };
    double *all = calloc(draws + (size_t)1, sizeof all[0]), sum = 0;
    if (!all)
        return error_no_memory(error, "the draws of a plan");
    for (uint32_t draw = 0; draw < draws; draw++) {
        const uint64_t time = trial->candidates[c].times[draw], best = trial->best[draw];
        all[draw] = best > 0 ? (double)(time - best) / (double)best : 0;
        sum += all[draw];
        regret->beaten += time > best;
        regret->exceeded +=
            (unsigned __int128)(time - best) * 1000000 > (unsigned __int128)time * trial->request->gain_ppm;
    }
    if (draws > 0) {
        qsort(all, draws, sizeof all[0], ascending_doubles);
        regret->median = all[(draws - 1) / 2];
        regret->p95 = all[((uint64_t)draws * 95 + 99) / 100 - 1];
        regret->most = all[draws - 1];
        regret->mean = sum / draws;
    }
    free(all);
    return true;
}

bool regret_measure(const struct regret_request *request, const struct plan *plan, struct regret *regret,
                    struct error *error)
{
    struct trial trial;
    const bool good = begin(&trial, request, plan, error) && run_draws(&trial, false, error)
                   && summarize(&trial, 0, regret, error);
    end(&trial);
    return good;
}

// --- the steady plan ----------------------------------------------------------------------

// After the given plan come those that most draws found. If two are equal, the first stays first.
static void keep_most_found(struct trial *trial)
{
    struct candidate *candidates = trial->candidates;
    for (size_t from = 2; from < trial->count; from++) {
        const struct candidate moved = candidates[from];
        size_t place = from;
        for (; place > 1 && candidates[place - 1].found < moved.found; place--)
            candidates[place] = candidates[place - 1];
        candidates[place] = moved;
    }
    while (trial->count > REGRET_CANDIDATES + 1) {
        plan_free(candidates[--trial->count].own);
        free(candidates[trial->count].times);
    }
}

static bool time_all(struct trial *trial, struct error *error)
{
    for (uint32_t draw = 0; draw < trial->draws; draw++) {
        noisy_profile_draw(&trial->noisy, trial->request->seed, draw);
        for (size_t c = 1; c < trial->count; c++)
            if (!time_candidate(trial, c, draw, error))
                return false;
    }
    return true;
}

static bool is_steadier(const struct regret *a, const struct regret *b)
{
    return a->p95 < b->p95 || (a->p95 == b->p95 && a->mean < b->mean);
}

static bool find_steady(struct trial *trial, struct regret *before, struct regret *after, size_t *steady,
                        struct error *error)
{
    *steady = 0;
    for (size_t c = 0; c < trial->count; c++) {
        struct regret regret;
        if (!summarize(trial, c, &regret, error))
            return false;
        if (c == 0)
            *before = *after = regret;
        else if (is_steadier(&regret, after)) {
            *after = regret;
            *steady = c;
        }
    }
    return true;
}

struct plan *regret_steady(const struct regret_request *request, const struct plan *plan, struct regret *before,
                           struct regret *after, struct error *error)
{
    struct trial trial;
    size_t steady;
    struct plan *calm = NULL;
    bool good = begin(&trial, request, plan, error) && run_draws(&trial, true, error);
    if (good)
        keep_most_found(&trial);
    good = good && time_all(&trial, error) && find_steady(&trial, before, after, &steady, error);
    if (good)
        calm = plan_reprice(trial.candidates[steady].plan, request->search, error);
    if (calm)
        plan_certify_by(calm, &plan->certificate, true);
    end(&trial);
    return calm;
}
