#include "partitioner/explain/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"
#include "schedules/board.h"

enum { PRECISION = 64, MOST_SCHEDULES = 3, STEP_BYTES = 256 };
enum { PROBE_BUDGET = 5000, NEAREST_WORK = 500000 };  // nearest.h

struct finding {
    const struct nearest_request *request;
    struct nearest *nearest;
    uint64_t until_ns;  // by the clock; 0: any time
    uint64_t work;      // that all of them took
    struct error *error;
};

static bool is_over(const struct finding *finding)
{
    return (finding->request->interrupted && *finding->request->interrupted)
        || (finding->until_ns > 0 && clock_now_ns() >= finding->until_ns);
}

// What is asked of a request: whether it fits, which is asked often and needs little; about its time; or its time, as
// well planned as there is work left for.
enum wanted { FITS, COMPARED, SHOWN };

// What came of one request: whether it fits, and if not, whether that is certain.
struct probe {
    struct what_if change;
    bool fits, certainly_not;
    uint64_t excess_bytes;  // of what the plan takes over the memory that there was, on the rank where that is most
};

// --- one request ----------------------------------------------------------------------

static bool probe(struct finding *finding, enum wanted wanted, const struct search_request *changed,
                  struct probe *result)
{
    struct search_request search = *changed;
    const uint64_t most = finding->request->budget ? finding->request->budget : NEAREST_BUDGET;
    const bool is_brief = wanted != SHOWN || finding->work > NEAREST_WORK;
    result->fits = result->certainly_not = false;
    result->change.row.found.outcome = SWEEP_NOT_TRIED;
    if (is_over(finding))
        return true;
    if (finding->request->progress)
        finding->request->progress(finding->request->self, finding->nearest->planned);
    finding->nearest->planned++;
    search.wanted.any = wanted == FITS;
    search.wanted.own_order = wanted == FITS && search.profile->layer_count > NEAREST_ALL_ORDERS;
    search.limits.budget = is_brief ? min_u64(most, PROBE_BUDGET) : most;
    search.found.work = &finding->work;
    const uint64_t now_ns = clock_now_ns();
    search.limits.deadline_ns = finding->until_ns > now_ns ? finding->until_ns - now_ns : finding->until_ns > 0;
    search.limits.interrupted = finding->request->interrupted;
    if (!what_if_plan(&search, &result->change, finding->error))
        return false;
    struct sweep_row *row = &result->change.row;
    result->fits = row->found.outcome == SWEEP_PLANNED;
    result->certainly_not = row->found.outcome == SWEEP_DOES_NOT_FIT;
    const bool is_open = row->found.outcome == SWEEP_NONE_FOUND;
    finding->nearest->failed[result->change.kind] |= is_open || result->certainly_not;
    finding->nearest->open[result->change.kind] |= is_open;
    struct plan_excess excess = { 0 };  // over the memory that was asked for
    const bool good =
        !row->plan || plan_find_excess(row->plan, finding->request->search->cluster, &excess, finding->error);
    if (row->plan)
        result->excess_bytes = excess.lacks_bytes;
    plan_free(row->plan);
    row->plan = NULL;
    return good;
}

static bool add(struct finding *finding, const struct what_if *change)
{
    struct nearest *nearest = finding->nearest;
    struct what_if *more = realloc(nearest->at, (nearest->count + 1) * sizeof more[0]);
    if (!more)
        return error_no_memory(finding->error, "the nearest requests");
    nearest->at = more;
    nearest->at[nearest->count++] = *change;
    return true;
}

// Adds what was found, planned as well as there is work left for; where that finds nothing, the first plan stands.
static bool show(struct finding *finding, const struct search_request *search, const struct probe *found)
{
    struct probe shown = *found;
    return probe(finding, SHOWN, search, &shown) && add(finding, shown.fits ? &shown.change : &found->change);
}

// Adds a change if something fits then.
static bool try_change(struct finding *finding, const struct search_request *search, const struct what_if *change,
                       bool *fits)
{
    struct probe found = { .change = *change };
    const bool good = probe(finding, FITS, search, &found) && (!found.fits || show(finding, search, &found));
    *fits = found.fits;
    return good;
}

// --- memory ---------------------------------------------------------------------------

// The request with so much more memory on each device; its cluster is the caller's.
static struct cluster *with_memory(struct finding *finding, uint64_t more_bytes, struct search_request *search)
{
    *search = *finding->request->search;
    struct cluster *cluster = cluster_copy(search->cluster, finding->error);
    for (size_t i = 0; cluster && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = min_u64(add_clamped(cluster->devices[i].memory_bytes, more_bytes), JSON_MAX);
    search->cluster = cluster;
    return cluster;
}

static bool probe_memory(struct finding *finding, uint64_t more_bytes, struct probe *result)
{
    struct search_request search;
    struct cluster *cluster = with_memory(finding, more_bytes, &search);
    const bool good = cluster && probe(finding, FITS, &search, result);
    cluster_free(cluster);
    return good;
}

static uint64_t most_memory(const struct cluster *cluster)
{
    uint64_t most = 0;
    for (size_t i = 0; i < cluster->device_count; i++)
        most = max_u64(most, cluster->devices[i].memory_bytes);
    return most;
}

// From what is known to be lacking, twice as much each time until something fits.
static bool find_enough(struct finding *finding, uint64_t from_bytes, struct probe *found)
{
    uint64_t more = from_bytes > 0 ? from_bytes : most_memory(finding->request->search->cluster) / 4 + STEP_BYTES;
    for (unsigned i = 0; i < 60 && !found->fits && more < JSON_MAX && !is_over(finding); i++, more *= 2)
        if (!probe_memory(finding, more, found))
            return false;
    return true;
}

// `found` fits, and 0 more does not, which may be certain. First just one step less, where what was lacking is known
// exactly; then by halves, to a part of all there is.
static bool find_least(struct finding *finding, uint64_t lacks_bytes, struct probe *found, bool low_is_certain)
{
    const uint64_t has = most_memory(finding->request->search->cluster);
    uint64_t low = 0;
    for (unsigned i = 0; found->excess_bytes > low + STEP_BYTES && !is_over(finding); i++) {
        const uint64_t high = found->excess_bytes;
        const bool is_exact = i == 0 && high <= lacks_bytes;
        if (!is_exact && high - low <= (has + high) / PRECISION)
            break;
        const uint64_t middle = is_exact ? high - STEP_BYTES : low + (high - low) / 2;
        struct probe other = *found;
        if (!probe_memory(finding, middle, &other))
            return false;
        if (other.fits) {
            *found = other;
        } else {
            low = middle;
            low_is_certain = other.certainly_not;
        }
    }
    found->change.is_least = low_is_certain && found->excess_bytes <= low + STEP_BYTES;
    return true;
}

static bool is_uniform(const struct cluster *cluster)
{
    for (size_t i = 1; i < cluster->device_count; i++)
        if (cluster->devices[i].memory_bytes != cluster->devices[0].memory_bytes)
            return false;
    return true;
}

static bool nearest_memory(struct finding *finding, const struct probe *own)
{
    const struct cluster *cluster = finding->request->search->cluster;
    struct probe found = { .change.kind = WHAT_IF_MEMORY };
    if (!find_enough(finding, own->change.row.found.lacks_bytes, &found))
        return false;
    if (!found.fits)
        return true;
    if (!find_least(finding, own->change.row.found.lacks_bytes, &found, own->certainly_not))
        return false;
    struct what_if *change = &found.change;
    const uint64_t each = add_clamped(cluster->devices[0].memory_bytes, found.excess_bytes);
    char bytes[NUMBER_SIZE];
    change->more_bytes = found.excess_bytes;
    if (is_uniform(cluster)) {
        snprintf(change->change, sizeof change->change, "%s on each device", bytes_format(each, bytes));
        snprintf(change->option, sizeof change->option, "--memory %lluB", (unsigned long long)each);
    } else {
        snprintf(change->change, sizeof change->change, "%s more on each device",
                 bytes_format(found.excess_bytes, bytes));
    }
    struct search_request search;
    struct cluster *enough = with_memory(finding, found.excess_bytes, &search);
    const bool good = enough && show(finding, &search, &found);
    cluster_free(enough);
    return good;
}

// --- micro-batches, ranks, schedules, optimizers -----------------------------------------

static bool probe_micro_batches(struct finding *finding, uint32_t micro_batches, struct probe *result)
{
    struct search_request search = *finding->request->search;
    *result = (struct probe){ .change = what_if_micro_batches(&search, micro_batches) };
    return probe(finding, FITS, &search, result);
}

// The most that fit, by halves: fewer need no more.
static bool nearest_micro_batches(struct finding *finding, bool high_is_certain)
{
    uint32_t low = 1, high = finding->request->search->micro_batches;  // low fits, high does not
    struct probe found = { .fits = false }, other = { .fits = false };
    if (high == 1)
        return true;
    if (!probe_micro_batches(finding, low, &found))
        return false;
    while (found.fits && high - low > 1 && !is_over(finding)) {
        const uint32_t middle = low + (high - low) / 2;
        if (!probe_micro_batches(finding, middle, &other))
            return false;
        if (other.fits) {
            low = middle;
            found = other;
        } else {
            high = middle;
            high_is_certain = other.certainly_not;
        }
    }
    found.change.is_least = high_is_certain && high - low == 1;
    struct search_request search = *finding->request->search;
    search.micro_batches = low;
    return !found.fits || show(finding, &search, &found);
}

// Adds so many ranks if something fits on them, as the least where it is certain that nothing does on fewer.
static bool try_ranks(struct finding *finding, uint32_t ranks, uint32_t *certain, bool *fits)
{
    struct search_request search = *finding->request->search;
    struct probe found = { .fits = false };
    struct cluster *larger;
    if (!what_if_ranks(&search, ranks, &found.change, &larger, finding->error))
        return false;
    bool good = search.ranks != ranks || probe(finding, FITS, &search, &found);
    found.change.is_least = *certain + 1 == ranks;
    *certain = found.certainly_not && *certain + 1 == ranks ? ranks : *certain;
    *fits = found.fits;
    good = good && (!found.fits || show(finding, &search, &found));
    cluster_free(larger);
    return good;
}

// The next few, as long as it is certain that fewer do not; then twice and four times as many.
static bool nearest_ranks(struct finding *finding)
{
    const uint32_t own = finding->request->search->ranks;
    const uint32_t numbers[] = { own + 1, own + 2, own + 3, own + 4, 2 * own, 4 * own };
    uint32_t certain = own;  // up to which it is certain that none fits
    finding->nearest->open[WHAT_IF_RANKS] = true;  // of still more
    bool fits = false;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !fits && !is_over(finding); i++) {
        const bool is_next = i > 0 && i <= 3;
        if ((i > 3 && numbers[i] <= numbers[3]) || (is_next && certain + 1 != numbers[i]))
            continue;
        if (!try_ranks(finding, numbers[i], &certain, &fits))
            return false;
    }
    return true;
}

// Into the quickest so far, in order of their times; of equals the first stays first.
static void keep_quickest(struct what_if *quickest, size_t *count, const struct what_if *found)
{
    size_t at = *count;
    while (at > 0 && found->row.found.iteration_ns < quickest[at - 1].row.found.iteration_ns)
        at--;
    if (at == MOST_SCHEDULES)
        return;
    *count += *count < MOST_SCHEDULES;
    memmove(quickest + at + 1, quickest + at, (*count - at - 1) * sizeof quickest[0]);
    quickest[at] = *found;
}

// Whether a schedule can take the place of the request's own: as its weights go, and of this model.
static bool is_instead(const struct search_request *request, const struct generator *own, const struct generator *other)
{
    return strcmp(other->name, own->name) != 0 && other->weights == own->weights
        && search_offers(other, request->profile);
}

static bool probe_schedule(struct finding *finding, enum wanted wanted, const char *schedule, struct probe *result)
{
    struct search_request search = *finding->request->search;
    *result = (struct probe){ .change = what_if_schedule(&search, schedule, 0) };
    return probe(finding, wanted, &search, result);
}

static bool find_quickest(struct finding *finding, const struct generator *own, struct what_if *quickest, size_t *count)
{
    for (const struct generator *other = generators; other->name && !is_over(finding); other++) {
        struct probe result = { .fits = false };
        if (is_instead(finding->request->search, own, other)
            && (!probe_schedule(finding, FITS, other->name, &result)
                || (result.fits && !probe_schedule(finding, COMPARED, other->name, &result))))
            return false;
        if (result.fits)
            keep_quickest(quickest, count, &result.change);
    }
    return true;
}

static bool nearest_schedules(struct finding *finding)
{
    struct generator own;
    struct what_if quickest[MOST_SCHEDULES], shown[MOST_SCHEDULES];
    size_t count = 0, shown_count = 0;
    if (!search_generator(finding->request->search, &own, finding->error))
        return false;
    if (own.is_inference)
        return true;
    bool good = find_quickest(finding, &own, quickest, &count);
    for (size_t i = 0; good && i < count; i++) {
        struct probe again;
        good = probe_schedule(finding, SHOWN, quickest[i].row.schedule, &again);
        keep_quickest(shown, &shown_count, again.fits ? &again.change : &quickest[i]);
    }
    for (size_t i = 0; good && i < count; i++)
        good = add(finding, &shown[i]);
    return good;
}

static uint64_t state_bytes(const struct search_request *search, enum optimizer_kind kind)
{
    struct holding holding = search->holding;
    uint64_t sum = 0;
    holding.optimizer = kind;
    for (uint32_t l = 0; l < search->profile->layer_count; l++)
        sum = add_clamped(sum, holding_state_bytes(&holding, search->profile, l));
    return sum;
}

// The optimizer with most state below so many bytes; of equals the first. False: none.
static bool find_optimizer(const struct search_request *search, uint64_t below, enum optimizer_kind *kind)
{
    bool found = false;
    for (int other = 0; optimizer_names[other]; other++) {
        const uint64_t bytes = state_bytes(search, (enum optimizer_kind)other);
        if (bytes < below && (!found || bytes > state_bytes(search, *kind))) {
            *kind = (enum optimizer_kind)other;
            found = true;
        }
    }
    return found;
}

// One way after the other to hold states; false: there is none after those.
typedef bool next_holding(struct search_request *search, unsigned number, struct what_if *change);

// What replicas hold once between them.
static bool next_shard(struct search_request *search, unsigned number, struct what_if *change)
{
    const unsigned shard = search->holding.shard + 1 + number;
    if (shard > SHARD_WEIGHTS || (!search->layout.replicas && !search->free.replicas))
        return false;
    *change = what_if_shard(search, (enum shard)shard);
    return true;
}

// What waits on the host, if there is one: the optimizer, what is kept, both.
static bool next_host(struct search_request *search, unsigned number, struct what_if *change)
{
    if (!search->cluster->has_host || number > 2)
        return false;
    *change = what_if_host(search, number != 1, number != 0);
    return true;
}

// Other optimizers in order of less state.
static bool next_optimizer(struct search_request *search, unsigned number, struct what_if *change)
{
    enum optimizer_kind kind = search->holding.optimizer;
    for (unsigned i = 0; i <= number; i++)
        if (!find_optimizer(search, state_bytes(search, kind), &kind))
            return false;
    *change = what_if_optimizer(search, kind);
    return true;
}

// The first of them that is enough.
static bool nearest_holding(struct finding *finding, next_holding *next)
{
    const struct search_request *own = finding->request->search;
    struct search_request search = *own;
    struct what_if change;
    bool found = false;
    for (unsigned number = 0; !found && next(&search, number, &change); number++, search = *own) {
        const struct holding *now = &search.holding, *before = &own->holding;
        const bool is_same = now->shard == before->shard && now->optimizer == before->optimizer
                          && now->optimizer_on_host == before->optimizer_on_host
                          && now->activations_on_host == before->activations_on_host;
        if (!is_same && !try_change(finding, &search, &change, &found))
            return false;
    }
    return true;
}

// --- all of it ----------------------------------------------------------------------------

bool nearest_find(const struct nearest_request *request, struct nearest *nearest, struct error *error)
{
    struct finding finding = { .request = request, .nearest = nearest, .error = error,
                               .until_ns = request->deadline_ns > 0 ? clock_now_ns() + request->deadline_ns : 0 };
    struct probe own = { .fits = false };
    *nearest = (struct nearest){ .count = 0 };
    const bool good = probe(&finding, FITS, request->search, &own)
                   && (own.fits
                       || (nearest_memory(&finding, &own) && nearest_micro_batches(&finding, own.certainly_not)
                           && nearest_ranks(&finding) && nearest_schedules(&finding)
                           && nearest_holding(&finding, next_shard) && nearest_holding(&finding, next_host)
                           && nearest_holding(&finding, next_optimizer)));
    for (size_t i = 0; i < nearest->count; i++)
        nearest->failed[nearest->at[i].kind] = false;
    for (size_t kind = 0; kind < WHAT_IF_KINDS; kind++)
        nearest->open[kind] |= is_over(&finding);
    if (!good)
        nearest_clear(nearest);
    return good;
}

void nearest_clear(struct nearest *nearest)
{
    free(nearest->at);
    *nearest = (struct nearest){ .count = 0 };
}
