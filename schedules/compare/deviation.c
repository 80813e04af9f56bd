#include "schedules/compare/deviation.h"

#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "schedules/host_moves.h"

struct finding {
    const struct aligned *aligned;
    struct deviation *deviation;
    uint64_t *durations;        // per item, for the next simulation
    uint64_t *in_order;         // the same in the measured order
    int64_t *means;             // per class: the average measured time of its actions, less the planned
    uint64_t *planned_means;    // per class
    uint64_t *measured_means;
    uint32_t *counts;
    size_t classes;
    struct arrays arrays;  // all of these
};

static int64_t measured_ns(const struct aligned *aligned, size_t item)
{
    return (int64_t)(aligned->measured.end_ns[item] - aligned->measured.start_ns[item]);
}

static uint64_t more(uint64_t time_ns, int64_t by_ns)
{
    return by_ns < 0 && (uint64_t)-by_ns > time_ns ? 0 : time_ns + (uint64_t)by_ns;
}

// --- averages ---------------------------------------------------------------------------

static bool average(struct finding *finding, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    finding->classes = (size_t)aligned->schedule->stages * CLASSES;
    finding->means = arrays_add(&finding->arrays, finding->classes + 1, sizeof *finding->means);
    finding->planned_means = arrays_add(&finding->arrays, finding->classes + 1, sizeof *finding->planned_means);
    finding->measured_means = arrays_add(&finding->arrays, finding->classes + 1, sizeof *finding->measured_means);
    finding->counts = arrays_add(&finding->arrays, finding->classes + 1, sizeof *finding->counts);
    if (finding->arrays.failed)
        return error_no_memory(error, "a comparison");
    for (size_t i = 0; i < aligned->count; i++) {
        const uint32_t class = aligned->items[i].class;
        finding->counts[class]++;
        finding->planned_means[class] += aligned->durations[i];
        finding->measured_means[class] += (uint64_t)measured_ns(aligned, i);
    }
    for (size_t class = 0; class < finding->classes; class++) {
        const uint32_t count = finding->counts[class];
        if (count == 0)
            continue;
        finding->planned_means[class] = (finding->planned_means[class] + count / 2) / count;
        finding->measured_means[class] = (finding->measured_means[class] + count / 2) / count;
        finding->means[class] = (int64_t)finding->measured_means[class] - (int64_t)finding->planned_means[class];
    }
    return true;
}

static bool add_rows(const struct finding *finding, struct error *error)
{
    struct deviation *deviation = finding->deviation;
    deviation->rows = calloc(finding->classes + 1, sizeof *deviation->rows);
    for (size_t class = 0; deviation->rows && class < finding->classes; class++) {
        if (finding->counts[class] > 0)
            deviation->rows[deviation->row_count++] = (struct deviation_row){
                (uint32_t)(class / CLASSES), (uint32_t)(class % CLASSES), finding->counts[class],
                finding->planned_means[class], finding->measured_means[class] };
    }
    return deviation->rows || error_no_memory(error, "a comparison");
}

// --- simulations ----------------------------------------------------------------------------

// The schedule with each rank's items in the order in which they were begun. Moves to the host and back are placed
// as in any order.
static struct schedule *measured_order(const struct aligned *aligned, struct error *error)
{
    struct schedule *schedule = schedule_copy(aligned->schedule, error);
    for (uint32_t rank = 0; schedule && rank < schedule->ranks; rank++) {
        struct action *to = schedule->lists[rank].at;
        for (size_t position = aligned->first[rank]; position < aligned->first[rank + 1]; position++) {
            const struct aligned_item *item = &aligned->items[aligned->measured.order[position]];
            memcpy(to, item->group, item->size * sizeof *to);
            to += item->size;
        }
        schedule->lists[rank].count = (size_t)(to - schedule->lists[rank].at);
    }
    if (schedule)
        schedule->moves = false;
    if (!schedule || !aligned->schedule->moves || schedule_add_moves(schedule, error))
        return schedule;
    schedule_free(schedule);
    return NULL;
}

// What differs from the plan besides durations. NULL: nothing does.
struct other {
    const struct network *network;
    const struct cost_row *costs;
    bool in_measured_order;
};

// Simulates the iteration in another order, over other links, or with other exchanges.
static bool run_other(const struct finding *finding, const struct other *other, uint64_t *iteration_ns,
                      struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    const bool in_measured_order = other->in_measured_order;
    struct schedule *schedule = in_measured_order ? measured_order(aligned, error) : NULL;
    if (in_measured_order && !schedule)
        return false;
    for (size_t position = 0; position < aligned->count; position++)
        finding->in_order[position] =
            finding->durations[in_measured_order ? aligned->measured.order[position] : position];
    struct lane_world *world = lane_world_create(schedule ? schedule : aligned->schedule,
                                                 other->costs ? other->costs : aligned->schedule->costs,
                                                 other->network ? other->network : aligned->network,
                                                 &(struct lane_rules){ .use = LANES_FREE }, error);
    const bool good = world && lane_world_run(world, finding->in_order, iteration_ns, error);
    lane_world_free(world);
    schedule_free(schedule);
    return good;
}

static bool run_durations(const struct finding *finding, uint64_t *iteration_ns, struct error *error)
{
    return lane_world_run(finding->aligned->world, finding->durations, iteration_ns, error);
}

static void plan_durations(const struct finding *finding)
{
    if (finding->aligned->count > 0)
        memcpy(finding->durations, finding->aligned->durations,
               finding->aligned->count * sizeof *finding->durations);
}

// --- causes -----------------------------------------------------------------------------------

static void add_cause(const struct finding *finding, struct deviation_cause cause, uint64_t iteration_ns)
{
    cause.explains_ns = (int64_t)(iteration_ns - finding->aligned->planned_ns);
    if (cause.explains_ns != 0)
        finding->deviation->causes[finding->deviation->cause_count++] = cause;
}

static bool add_stages(const struct finding *finding, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    bool good = true;
    for (uint32_t stage = 0; good && stage < aligned->schedule->stages; stage++) {
        plan_durations(finding);
        for (size_t i = 0; i < aligned->count; i++) {
            const uint32_t class = aligned->items[i].class;
            if (class / CLASSES == stage)
                finding->durations[i] = more(finding->durations[i], finding->means[class]);
        }
        uint64_t iteration_ns;
        good = run_durations(finding, &iteration_ns, error);
        if (good)
            add_cause(finding, (struct deviation_cause){ .kind = CAUSE_STAGE, .stage = stage }, iteration_ns);
    }
    return good;
}

static bool add_noise(const struct finding *finding, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    uint64_t iteration_ns;
    plan_durations(finding);
    for (size_t i = 0; i < aligned->count; i++)
        finding->durations[i] = more(finding->durations[i], measured_ns(aligned, i)
                                     - (int64_t)finding->measured_means[aligned->items[i].class]);
    if (!run_durations(finding, &iteration_ns, error))
        return false;
    add_cause(finding, (struct deviation_cause){ .kind = CAUSE_NOISE }, iteration_ns);
    return true;
}

// A gap is added before its action, so the action's results are later, too.
static bool add_gaps(const struct finding *finding, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    struct deviation_cause cause = { .kind = CAUSE_GAPS };
    uint64_t iteration_ns;
    plan_durations(finding);
    for (size_t i = 0; i < aligned->count; i++) {
        finding->durations[i] += aligned->measured.gap_ns[i];
        cause.measured_ns += aligned->measured.gap_ns[i];
        cause.planned_ns += aligned->planned.gap_ns[i];
    }
    if (!run_durations(finding, &iteration_ns, error))
        return false;
    add_cause(finding, cause, iteration_ns);
    return true;
}

static bool add_order(const struct finding *finding, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    uint64_t iteration_ns;
    if (memcmp(aligned->measured.order, aligned->planned.order, aligned->count * sizeof *aligned->planned.order) == 0)
        return true;
    plan_durations(finding);
    if (!run_other(finding, &(struct other){ .in_measured_order = true }, &iteration_ns, error))
        return false;
    add_cause(finding, (struct deviation_cause){ .kind = CAUSE_ORDER }, iteration_ns);
    return true;
}

// --- links --------------------------------------------------------------------------------------

// How much longer than planned messages over a link took.
static int64_t link_excess(const struct aligned *aligned, uint32_t link)
{
    const uint64_t measured = aligned->measured.link_ns[link], planned = aligned->planned.link_ns[link];
    return measured == UNKNOWN_NS || planned == UNKNOWN_NS ? 0 : (int64_t)(measured - planned);
}

static struct network *slower_links(const struct aligned *aligned, uint32_t first, uint32_t end, struct error *error)
{
    struct network *network = network_copy(aligned->network, aligned->network->ranks, error);
    for (uint32_t link = first; network && link < end; link++)
        network->links[link].latency_ns = more(network->links[link].latency_ns, link_excess(aligned, link));
    return network;
}

static bool add_link(const struct finding *finding, uint32_t link, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    struct deviation_cause cause = { .kind = CAUSE_LINK, .planned_ns = aligned->planned.link_ns[link],
                                     .measured_ns = aligned->measured.link_ns[link] };
    for (size_t i = 0; i < aligned->count; i++) {
        const struct aligned_item *item = &aligned->items[i];
        for (unsigned k = 0; k < MOST_INPUTS && item->inputs[k] != NO_ITEM && cause.from == cause.to; k++) {
            if (item->links[k] == link) {
                cause.from = aligned->items[item->inputs[k]].rank;
                cause.to = item->rank;
            }
        }
    }
    struct network *network = slower_links(aligned, link, link + 1, error);
    uint64_t iteration_ns = 0;
    plan_durations(finding);
    const bool good = network && run_other(finding, &(struct other){ .network = network }, &iteration_ns, error);
    network_free(network);
    if (good)
        add_cause(finding, cause, iteration_ns);
    return good;
}

static bool add_links(const struct finding *finding, struct error *error)
{
    bool good = true;
    for (uint32_t link = 0; good && link < finding->aligned->network->link_count; link++)
        good = link_excess(finding->aligned, link) == 0 || add_link(finding, link, error);
    return good;
}

// --- exchanges ----------------------------------------------------------------------------------

static bool differs(const struct aligned *aligned, uint32_t stage)
{
    return aligned->exchange_ns[stage] != UNKNOWN_NS
        && aligned->exchange_ns[stage] != aligned->schedule->costs[stage].exchange_ns;
}

// The costs with the measured exchanges of these stages.
static struct cost_row *other_exchanges(const struct aligned *aligned, uint32_t first, uint32_t end,
                                        struct error *error)
{
    const uint32_t stages = aligned->schedule->stages;
    struct cost_row *costs = malloc((stages + 1u) * sizeof *costs);
    if (!costs)
        return error_null(error_no_memory(error, "a comparison"));
    memcpy(costs, aligned->schedule->costs, stages * sizeof *costs);
    for (uint32_t stage = first; stage < end; stage++)
        if (differs(aligned, stage))
            costs[stage].exchange_ns = aligned->exchange_ns[stage];
    return costs;
}

static bool add_exchange(const struct finding *finding, uint32_t stage, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    struct cost_row *costs = other_exchanges(aligned, stage, stage + 1, error);
    uint64_t iteration_ns = 0;
    plan_durations(finding);
    const bool good = costs && run_other(finding, &(struct other){ .costs = costs }, &iteration_ns, error);
    free(costs);
    if (good)
        add_cause(finding, (struct deviation_cause){ .kind = CAUSE_EXCHANGE, .stage = stage,
                                                     .planned_ns = aligned->schedule->costs[stage].exchange_ns,
                                                     .measured_ns = aligned->exchange_ns[stage] }, iteration_ns);
    return good;
}

static bool is_with_exchange(struct action action, uint32_t stage)
{
    return action.stage == stage && (action.kind == ACTION_F || action.kind == ACTION_B || action.kind == ACTION_I
                                     || action.kind == ACTION_R);
}

static bool add_within(const struct finding *finding, uint32_t stage, const struct stage_exchange *within,
                       struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    uint64_t iteration_ns;
    plan_durations(finding);
    for (size_t i = 0; i < aligned->count; i++)
        for (uint32_t k = 0; k < aligned->items[i].size; k++)
            if (is_with_exchange(aligned->items[i].group[k], stage))
                finding->durations[i] = more(finding->durations[i],
                                             (int64_t)within->measured_ns - (int64_t)within->planned_ns);
    if (!run_durations(finding, &iteration_ns, error))
        return false;
    add_cause(finding, (struct deviation_cause){ .kind = CAUSE_WITHIN, .stage = stage,
                                                 .planned_ns = within->planned_ns,
                                                 .measured_ns = within->measured_ns }, iteration_ns);
    return true;
}

static bool add_exchanges(const struct finding *finding, const struct stage_exchange *within, struct error *error)
{
    bool good = true;
    for (uint32_t stage = 0; good && stage < finding->aligned->schedule->stages; stage++)
        good = (!differs(finding->aligned, stage) || add_exchange(finding, stage, error))
            && (!within || within[stage].planned_ns == within[stage].measured_ns
                || add_within(finding, stage, &within[stage], error));
    return good;
}

// --- all of them --------------------------------------------------------------------------------

static bool add_together(const struct finding *finding, struct error *error)
{
    const struct aligned *aligned = finding->aligned;
    struct network *network = slower_links(aligned, 0, aligned->network->link_count, error);
    struct cost_row *costs = other_exchanges(aligned, 0, aligned->schedule->stages, error);
    for (size_t i = 0; i < aligned->count; i++)
        finding->durations[i] = (uint64_t)measured_ns(aligned, i) + aligned->measured.gap_ns[i];
    const struct other measured = { network, costs, true };
    const bool good = network && costs && run_other(finding, &measured, &finding->deviation->together_ns, error);
    network_free(network);
    free(costs);
    return good;
}

static int64_t explained(const struct deviation_cause *cause, const struct deviation *deviation)
{
    return deviation->measured_ns < deviation->planned_ns ? -cause->explains_ns : cause->explains_ns;
}

static int compare_causes(const void *a, const void *b, void *deviation)
{
    const struct deviation_cause *x = a, *y = b;
    const int64_t p = explained(x, deviation), q = explained(y, deviation);
    if (p != q)
        return p > q ? -1 : 1;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
         : x->stage != y->stage ? (x->stage > y->stage) - (x->stage < y->stage)
                                : (x->from > y->from) - (x->from < y->from);
}

bool deviation_find(const struct aligned *aligned, const struct stage_exchange *within, struct deviation *deviation,
                    struct error *error)
{
    struct finding finding = { .aligned = aligned, .deviation = deviation };
    enum { OTHERS = 3 };  // order, noise, gaps
    *deviation = (struct deviation){ .planned_ns = aligned->planned_ns, .measured_ns = aligned->measured_ns };
    deviation->causes = calloc(3 * (size_t)aligned->schedule->stages + aligned->network->link_count + OTHERS,
                               sizeof *deviation->causes);
    finding.durations = arrays_add(&finding.arrays, aligned->count + 1, sizeof *finding.durations);
    finding.in_order = arrays_add(&finding.arrays, aligned->count + 1, sizeof *finding.in_order);
    const bool good = ((deviation->causes && !finding.arrays.failed) || error_no_memory(error, "a comparison"))
                   && average(&finding, error) && add_rows(&finding, error) && add_stages(&finding, error)
                   && add_links(&finding, error) && add_exchanges(&finding, within, error)
                   && add_order(&finding, error) && add_noise(&finding, error)
                   && add_gaps(&finding, error) && add_together(&finding, error);
    if (good && deviation->cause_count > 0)
        qsort_r(deviation->causes, deviation->cause_count, sizeof *deviation->causes, compare_causes, deviation);
    arrays_clear(&finding.arrays);
    if (!good)
        deviation_clear(deviation);
    return good;
}

void deviation_clear(struct deviation *deviation)
{
    free(deviation->rows);
    free(deviation->causes);
    *deviation = (struct deviation){ 0 };
}

// --- names --------------------------------------------------------------------------

const char *deviation_kind(uint32_t kind)
{
    static const char *const names[CLASSES] = { [ACTION_F] = "F", [ACTION_B] = "B", [ACTION_I] = "I", [ACTION_W] = "W",
                                                [ACTION_R] = "R", [ACTION_REDUCE] = "REDUCE", [ACTION_STEP] = "STEP",
                                                [CLASS_GROUP] = "group" };
    return names[kind];
}

const char *cause_name(enum cause_kind kind)
{
    static const char *const names[] = { [CAUSE_STAGE] = "stage", [CAUSE_LINK] = "link",
                                         [CAUSE_EXCHANGE] = "exchange", [CAUSE_WITHIN] = "exchange",
                                         [CAUSE_ORDER] = "order", [CAUSE_NOISE] = "noise", [CAUSE_GAPS] = "gaps" };
    return names[kind];
}
