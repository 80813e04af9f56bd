#include "schedules/compare/aligned.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/board.h"
#include "schedules/pictures/span_index.h"

// --- the planned order, in the form of traces -----------------------------------------

static unsigned kinds_of(const struct timeline *timeline)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < timeline->span_count; i++)
        kinds |= 1u << timeline->spans[i].action.kind;
    return kinds;
}

static struct schedule *compute_order(const struct schedule *schedule, unsigned kinds, struct error *error)
{
    const unsigned seldom_shown = 1u << ACTION_STEP | 1u << ACTION_REDUCE;
    struct schedule *order = schedule_copy(schedule, error);
    if (order)
        schedule_drop(order, KINDS_OF_MESSAGES | 1u << ACTION_VALIDATE | (seldom_shown & ~kinds));
    return order;
}

// --- finding items and spans ------------------------------------------------------------

// An action on a rank, and the number of its item or span.
struct entry {
    uint32_t rank;
    struct action action;
    size_t number;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
#define COMPARE(u, v) \
    if ((u) != (v))   \
    return (u) < (v) ? -1 : 1
    COMPARE(x->rank, y->rank);
    COMPARE(x->action.stage, y->action.stage);
    COMPARE(x->action.kind, y->action.kind);
    COMPARE(x->action.micro_batch, y->action.micro_batch);
    COMPARE(x->action.split, y->action.split);
#undef COMPARE
    return 0;
}

struct entries {
    struct entry *at;
    size_t count;
};

static size_t find(const struct entries *entries, uint32_t rank, struct action action)
{
    const struct entry key = { .rank = rank, .action = action };
    const struct entry *found =
        entries->count ? bsearch(&key, entries->at, entries->count, sizeof key, compare_entries) : NULL;
    return found ? found->number : NO_ITEM;
}

static void sort(struct entries *entries)
{
    if (entries->count > 0)
        qsort(entries->at, entries->count, sizeof *entries->at, compare_entries);
}

static bool enter_items(const struct aligned *aligned, struct entries *entries, struct error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < aligned->count; i++)
        count += aligned->items[i].size;
    *entries = (struct entries){ .at = malloc((count + 1) * sizeof *entries->at) };
    for (size_t i = 0; entries->at && i < aligned->count; i++) {
        for (uint32_t k = 0; k < aligned->items[i].size; k++)
            entries->at[entries->count++] = (struct entry){ aligned->items[i].rank, aligned->items[i].group[k], i };
    }
    sort(entries);
    return entries->at || error_no_memory(error, "a comparison");
}

static bool enter_spans(const struct timeline *timeline, struct entries *entries, struct error *error)
{
    *entries = (struct entries){ .at = malloc((timeline->span_count + 1) * sizeof *entries->at) };
    for (size_t i = 0; entries->at && i < timeline->span_count; i++) {
        const struct span *span = &timeline->spans[i];
        if (span->action.kind <= ACTION_R || span->action.kind == ACTION_STEP || span->action.kind == ACTION_REDUCE)
            entries->at[entries->count++] = (struct entry){ span->rank, span->action, i };
    }
    sort(entries);
    return entries->at || error_no_memory(error, "a comparison");
}

// --- items --------------------------------------------------------------------------------

static bool make_items(struct aligned *aligned, struct error *error)
{
    const struct schedule *schedule = aligned->schedule;
    const size_t count = schedule_action_count(schedule);
    aligned->items = arrays_add(&aligned->arrays, count, sizeof *aligned->items);
    aligned->first = arrays_add(&aligned->arrays, schedule->ranks + (size_t)1, sizeof *aligned->first);
    if (aligned->arrays.failed)
        return error_no_memory(error, "a comparison");
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action *end = list_end(&schedule->lists[rank]);
        aligned->first[rank] = aligned->count;
        uint32_t size;
        for (const struct action *group = schedule->lists[rank].at; group < end; group += size) {
            size = (uint32_t)group_size(group, end);
            if (is_move(*group))
                continue;  // it runs beside the rank's actions
            aligned->items[aligned->count++] = (struct aligned_item){ .rank = rank, .size = size, .group = group,
                .class = class_number(group, size), .inputs = { NO_ITEM, NO_ITEM } };
        }
    }
    aligned->first[schedule->ranks] = aligned->count;
    return true;
}

// The item that makes the input of an action on another rank, or NO_ITEM.
static size_t find_input(const struct aligned *aligned, const struct entries *entries, struct action action)
{
    struct action maker;
    if (!needs_message(aligned->schedule, action) || !action_input(action, &maker))
        return NO_ITEM;
    const uint32_t rank = schedule_rank(aligned->schedule, maker.stage, maker.micro_batch);
    const size_t item = find(entries, rank, maker);
    if (item != NO_ITEM || maker.kind == ACTION_F)
        return item;
    maker.kind = maker.kind == ACTION_B ? ACTION_I : ACTION_B;
    return find(entries, rank, maker);
}

static void join_items(struct aligned *aligned, const struct entries *entries)
{
    for (size_t i = 0; i < aligned->count; i++) {
        struct aligned_item *item = &aligned->items[i];
        uint32_t inputs = 0;
        for (uint32_t k = 0; k < item->size && inputs < MOST_INPUTS; k++) {
            const size_t maker = find_input(aligned, entries, item->group[k]);
            if (maker == NO_ITEM)
                continue;
            item->inputs[inputs] = maker;
            item->links[inputs++] =
                aligned->network->link_of[(size_t)aligned->items[maker].rank * aligned->network->ranks + item->rank];
        }
    }
}

// All durations and gaps of a run must sum to less than this.
#define MOST_NS ((uint64_t)1 << 61)

// --- a run ----------------------------------------------------------------------------------

static bool run_create(struct aligned *aligned, struct aligned_run *run, struct error *error)
{
    struct arrays *arrays = &aligned->arrays;
    run->start_ns = arrays_add(arrays, aligned->count, sizeof *run->start_ns);
    run->end_ns = arrays_add(arrays, aligned->count, sizeof *run->end_ns);
    run->order = arrays_add(arrays, aligned->count, sizeof *run->order);
    run->link_ns = arrays_add(arrays, aligned->network->link_count, sizeof *run->link_ns);
    run->gap_ns = arrays_add(arrays, aligned->count, sizeof *run->gap_ns);
    return !arrays->failed || error_no_memory(error, "a comparison");
}

static bool refuse(struct action action, uint32_t rank, const char *who, struct error *error)
{
    char name[ACTION_SIZE];
    return error_set(error, "%s on rank %u is in the %s only: the two do not do the same work",
                     action_format(action, name), rank, who);
}

// Matches items and spans: every item must have its spans, and every span its item.
static bool place(const struct aligned *aligned, const struct entries *entries, const struct timeline *timeline,
                  const struct entries *spans, struct aligned_run *run, struct error *error)
{
    for (size_t i = 0; i < aligned->count; i++) {
        const struct aligned_item *item = &aligned->items[i];
        run->start_ns[i] = UINT64_MAX;
        for (uint32_t k = 0; k < item->size; k++) {
            const size_t number = find(spans, item->rank, item->group[k]);
            if (number == NO_ITEM)
                return refuse(item->group[k], item->rank, "plan", error);
            const struct span *span = &timeline->spans[number];
            run->start_ns[i] = span->start_ns < run->start_ns[i] ? span->start_ns : run->start_ns[i];
            run->end_ns[i] = span->end_ns > run->end_ns[i] ? span->end_ns : run->end_ns[i];
        }
    }
    for (size_t i = 0; i < spans->count; i++) {
        if (find(entries, spans->at[i].rank, spans->at[i].action) == NO_ITEM)
            return refuse(spans->at[i].action, spans->at[i].rank, "measured run", error);
    }
    return true;
}

static uint64_t start_clock(const struct aligned *aligned, struct aligned_run *run)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < aligned->count; i++) {
        first = run->start_ns[i] < first ? run->start_ns[i] : first;
        last = run->end_ns[i] > last ? run->end_ns[i] : last;
    }
    for (size_t i = 0; i < aligned->count; i++) {
        run->start_ns[i] -= first;
        run->end_ns[i] -= first;
    }
    return aligned->count ? last - first : 0;
}

static int compare_starts(const void *a, const void *b, void *context)
{
    const struct aligned_run *run = context;
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    if (run->start_ns[x] != run->start_ns[y])
        return run->start_ns[x] < run->start_ns[y] ? -1 : 1;
    if (run->end_ns[x] != run->end_ns[y])  // items that take no time come first
        return run->end_ns[x] < run->end_ns[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort_run(const struct aligned *aligned, struct aligned_run *run)
{
    for (size_t i = 0; i < aligned->count; i++)
        run->order[i] = i;
    for (uint32_t rank = 0; rank < aligned->schedule->ranks; rank++) {
        const size_t first = aligned->first[rank], count = aligned->first[rank + 1] - first;
        if (count > 0)
            qsort_r(run->order + first, count, sizeof *run->order, compare_starts, run);
    }
}

// --- time of messages, and gaps -------------------------------------------------------------

// When the rank became free for the item at `place` of its order.
static uint64_t free_ns(const struct aligned *aligned, const struct aligned_run *run, uint32_t rank, size_t place)
{
    return place > aligned->first[rank] ? run->end_ns[run->order[place - 1]] : 0;
}

static uint64_t past(uint64_t time_ns, uint64_t from_ns)
{
    return time_ns > from_ns ? time_ns - from_ns : 0;
}

// The least gap between two actions of a rank.
static uint64_t least_gap(const struct aligned *aligned, const struct aligned_run *run, uint32_t rank)
{
    uint64_t least = UINT64_MAX;
    for (size_t position = aligned->first[rank] + 1; position < aligned->first[rank + 1]; position++) {
        const uint64_t gap = past(run->start_ns[run->order[position]], free_ns(aligned, run, rank, position));
        least = gap < least ? gap : least;
    }
    return least == UINT64_MAX ? 0 : least;
}

// A message took at most the time from the end of its action to the start of the action that needs it, less the
// least gap. If the rank was idle before that start, the message took exactly this time, unless the rank was idle
// for another reason. The least of these times therefore counts.
static void find_links(const struct aligned *aligned, struct aligned_run *run)
{
    enum { CLOCK_NS = 1000 };  // the precision of clocks
    memset(run->link_ns, 0xff, aligned->network->link_count * sizeof *run->link_ns);  // UNKNOWN_NS
    for (uint32_t rank = 0; rank < aligned->schedule->ranks; rank++) {
        const uint64_t least = least_gap(aligned, run, rank);
        for (size_t position = aligned->first[rank]; position < aligned->first[rank + 1]; position++) {
            const size_t i = run->order[position];
            const struct aligned_item *item = &aligned->items[i];
            if (past(run->start_ns[i], free_ns(aligned, run, rank, position)) <= 2 * least + CLOCK_NS)
                continue;
            for (unsigned k = 0; k < MOST_INPUTS && item->inputs[k] != NO_ITEM; k++) {
                const uint64_t took = past(past(run->start_ns[i], run->end_ns[item->inputs[k]]), least);
                uint64_t *link_ns = &run->link_ns[item->links[k]];
                *link_ns = took < *link_ns ? took : *link_ns;
            }
        }
    }
}

// `usual_ns`: per link, the time of messages if the run does not show it.
static void find_gaps(const struct aligned *aligned, struct aligned_run *run, const uint64_t *usual_ns)
{
    for (uint32_t rank = 0; rank < aligned->schedule->ranks; rank++) {
        for (size_t position = aligned->first[rank]; position < aligned->first[rank + 1]; position++) {
            const size_t i = run->order[position];
            const struct aligned_item *item = &aligned->items[i];
            uint64_t ready = free_ns(aligned, run, rank, position);
            if (item->group->kind == ACTION_REDUCE)
                continue;  // it waits for the other copies of its stage
            for (unsigned k = 0; k < MOST_INPUTS && item->inputs[k] != NO_ITEM; k++) {
                const uint32_t link = item->links[k];
                const uint64_t link_ns = run->link_ns[link] == UNKNOWN_NS ? usual_ns[link] : run->link_ns[link];
                const uint64_t arrived = run->end_ns[item->inputs[k]] + link_ns;
                ready = arrived > ready ? arrived : ready;
            }
            run->gap_ns[i] = past(run->start_ns[i], ready);
        }
    }
}

// If no rank waits for a message in the plan, the time of its messages counts.
static void add_planned_links(struct aligned *aligned, const struct timeline *planned)
{
    const struct network *network = aligned->network;
    for (size_t i = 0; i < planned->message_count; i++) {
        const struct message *message = &planned->messages[i];
        uint64_t *link_ns =
            &aligned->planned.link_ns[network->link_of[(size_t)message->from * network->ranks + message->to]];
        const uint64_t took = message->end_ns - message->start_ns;
        *link_ns = took < *link_ns ? took : *link_ns;
    }
}

static bool observe(struct aligned *aligned, const struct entries *entries, const struct timeline *timeline,
                    struct aligned_run *run, uint64_t *iteration_ns, struct error *error)
{
    struct entries spans = { 0 };
    const bool good = run_create(aligned, run, error) && enter_spans(timeline, &spans, error)
                   && place(aligned, entries, timeline, &spans, run, error);
    free(spans.at);
    if (!good)
        return false;
    *iteration_ns = start_clock(aligned, run);
    if (*iteration_ns > MOST_NS / (aligned->count + 1))
        return error_set(error, "takes too long: its actions could not be added up");
    sort_run(aligned, run);
    find_links(aligned, run);
    return true;
}

// --- exchanges ----------------------------------------------------------------------------------

static int compare_ends(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

// The exchanges, sorted by rank and end. One follows another, so each takes from where the one before ended.
static struct message *sorted_exchanges(const struct timeline *measured, size_t *count, struct error *error)
{
    struct message *exchanges = malloc((measured->message_count + 1) * sizeof *exchanges);
    *count = 0;
    for (size_t i = 0; exchanges && i < measured->message_count; i++)
        if (is_exchange(&measured->messages[i]))
            exchanges[(*count)++] = measured->messages[i];
    if (exchanges && *count > 0)
        qsort(exchanges, *count, sizeof *exchanges, compare_ends);
    for (size_t i = *count; i-- > 1;)
        if (exchanges[i].from == exchanges[i - 1].from && exchanges[i].start_ns < exchanges[i - 1].end_ns)
            exchanges[i].start_ns = exchanges[i - 1].end_ns;
    if (!exchanges)
        error_no_memory(error, "a comparison");
    return exchanges;
}

static bool find_exchanges(struct aligned *aligned, const struct timeline *measured, struct error *error)
{
    const uint32_t stages = aligned->schedule->stages;
    size_t count;
    struct message *exchanges = sorted_exchanges(measured, &count, error);
    uint64_t *counts = calloc(stages + 1u, sizeof *counts);
    aligned->exchange_ns = arrays_add(&aligned->arrays, stages, sizeof *aligned->exchange_ns);
    const bool good = exchanges && ((counts && aligned->exchange_ns) || error_no_memory(error, "a comparison"));
    for (size_t i = 0; good && i < count; i++) {
        // A SEND_B is of the stage behind.
        const uint32_t stage = exchanges[i].action.stage - (exchanges[i].action.kind == ACTION_SEND_B);
        if (stage < stages) {
            counts[stage]++;
            aligned->exchange_ns[stage] += exchanges[i].end_ns - exchanges[i].start_ns;
        }
    }
    for (uint32_t stage = 0; good && stage < stages; stage++)
        aligned->exchange_ns[stage] = counts[stage] > 0 && aligned->schedule->exchanges
                                          ? (aligned->exchange_ns[stage] + counts[stage] / 2) / counts[stage]
                                          : UNKNOWN_NS;
    free(counts);
    free(exchanges);
    return good;
}

// --- all of it ------------------------------------------------------------------------------

static bool plan_world(struct aligned *aligned, struct timeline *planned, struct error *error)
{
    struct lane_world_result result = { 0 };
    size_t count;
    aligned->world = lane_world_create(aligned->schedule, NULL, aligned->network,
                                       &(struct lane_rules){ .use = LANES_FREE }, error);
    if (!aligned->world)
        return false;
    aligned->durations = lane_world_durations(aligned->world, &count);
    const bool good = lane_world_run(aligned->world, NULL, &aligned->planned_ns, error)
                   && lane_world_result(aligned->world, &result, planned, error);
    lane_world_result_clear(&result);
    return good;
}

bool aligned_create(struct aligned *aligned, const struct schedule *schedule, const struct network *network,
                    const struct timeline *measured, struct error *error)
{
    struct timeline planned = { 0 };
    struct entries entries = { 0 };
    *aligned = (struct aligned){ .schedule = compute_order(schedule, kinds_of(measured), error) };
    aligned->network = aligned->schedule ? network_copy(network, schedule->ranks, error) : NULL;
    bool good = aligned->network != NULL;
    if (good && measured->ranks != schedule->ranks)
        good = error_set(error, "the plan has %u ranks, and the measured run %u", schedule->ranks, measured->ranks);
    good = good && make_items(aligned, error) && enter_items(aligned, &entries, error);
    if (good)
        join_items(aligned, &entries);
    uint64_t planned_ns;
    good = good && plan_world(aligned, &planned, error)
        && observe(aligned, &entries, &planned, &aligned->planned, &planned_ns, error)
        && observe(aligned, &entries, measured, &aligned->measured, &aligned->measured_ns, error)
        && find_exchanges(aligned, measured, error);
    if (good) {
        add_planned_links(aligned, &planned);
        find_gaps(aligned, &aligned->planned, aligned->planned.link_ns);
        find_gaps(aligned, &aligned->measured, aligned->planned.link_ns);
    }
    timeline_clear(&planned);
    free(entries.at);
    if (!good)
        aligned_clear(aligned);
    return good;
}

void aligned_clear(struct aligned *aligned)
{
    lane_world_free(aligned->world);
    arrays_clear(&aligned->arrays);
    network_free(aligned->network);
    schedule_free(aligned->schedule);
    *aligned = (struct aligned){ 0 };
}
