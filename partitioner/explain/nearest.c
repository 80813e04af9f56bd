#include "partitioner/explain/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"

enum { PRECISION = 64, MOST_SCHEDULES = 3, STEP_BYTES = 256 };
enum { PROBE_BUDGET = 5000, NEAREST_WORK = 500000 };  // nearest.h

struct finding {
    const struct nearest_request *request;
    struct nearest *nearest;
    uint64_t until_ns;  // deadline on the clock; 0: none
    uint64_t work;      // units of work of all plans so far
    struct error *error;
};

static bool is_over(const struct finding *finding)
{
    return (finding->request->interrupted && *finding->request->interrupted)
        || (finding->until_ns > 0 && clock_now_ns() >= finding->until_ns);
}

// What is asked about a request. FITS, whether it fits, is asked often and needs little work. COMPARED asks about its
// time. SHOWN asks for its time, planned as well as the remaining work allows.
enum wanted { FITS, COMPARED, SHOWN };

// The result for one request: whether it fits, and if not, whether that is certain.
struct probe {
    struct what_if change;
    bool fits, certainly_not;
    uint64_t excess_bytes;  // of the plan beyond the requested memory, on the rank where that is most
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
    struct plan_excess excess = { 0 };  // over the requested memory
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

// Adds a request, planned as well as the remaining work allows. If that finds no plan, the first plan is used.
static bool show(struct finding *finding, const struct search_request *search, const struct probe *found)
{
    struct probe shown = *found;
    return probe(finding, SHOWN, search, &shown) && add(finding, shown.fits ? &shown.change : &found->change);
}

// Adds a change if something fits with it.
static bool try_change(struct finding *finding, const struct search_request *search, const struct what_if *change,
                       bool *fits)
{
    struct probe found = { .change = *change };
    const bool good = probe(finding, FITS, search, &found) && (!found.fits || show(finding, search, &found));
    *fits = found.fits;
    return good;
}

// --- memory ---------------------------------------------------------------------------

// The request with `more_bytes` more memory on each device. The caller frees its cluster.
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

// Starts from what is known to be lacking, and doubles it until something fits.
static bool find_enough(struct finding *finding, uint64_t from_bytes, struct probe *found)
{
    uint64_t more = from_bytes > 0 ? from_bytes : most_memory(finding->request->search->cluster) / 4 + STEP_BYTES;
    for (unsigned i = 0; i < 60 && !found->fits && more < JSON_MAX && !is_over(finding); i++, more *= 2)
        if (!probe_memory(finding, more, found))
            return false;
    return true;
}

// `found` fits, and 0 more bytes do not, which may be certain. If the shortage is known exactly, the first probe is
// just one step less. Then follows bisection, to a fraction of the whole memory.
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

static bool nearest_memory(struct finding *finding, const struct probe *probed)
{
    const struct cluster *cluster = finding->request->search->cluster;
    struct probe found = { .change.kind = WHAT_IF_MEMORY };
    if (!find_enough(finding, probed->change.row.found.lacks_bytes, &found))
        return false;
    if (!found.fits)
        return true;
    if (!find_least(finding, probed->change.row.found.lacks_bytes, &found, probed->certainly_not))
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

// The most that fit, by bisection: fewer micro-batches need no more memory.
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

// Adds this number of ranks if something fits on them. It is the least if it is certain that nothing fits on fewer.
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

// Tries the next few numbers as long as it is certain that fewer are too few; then twice and four times as many.
static bool nearest_ranks(struct finding *finding)
{
    const uint32_t ranks = finding->request->search->ranks;
    const uint32_t numbers[] = { ranks + 1, ranks + 2, ranks + 3, ranks + 4, 2 * ranks, 4 * ranks };
    uint32_t certain = ranks;  // the largest number of ranks for which it is certain that nothing fits
    finding->nearest->open[WHAT_IF_RANKS] = true;  // with still more ranks
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

// Inserts into the quickest so far, sorted by time. If two are equal, the first stays first.
static void keep_quickest(struct what_if *quickest, size_t *count, const struct what_if *found)
{
    size_t place = *count;
    while (place > 0 && found->row.found.iteration_ns < quickest[place - 1].row.found.iteration_ns)
        place--;
    if (place == MOST_SCHEDULES)
        return;
    *count += *count < MOST_SCHEDULES;
    memmove(quickest + place + 1, quickest + place, (*count - place - 1) * sizeof quickest[0]);
    quickest[place] = *found;
}

// Whether a schedule can replace the request's own: it has the same weight semantics, and it can take this model.
static bool is_instead(const struct search_request *request, const struct generator *current,
                       const struct generator *other)
{
    return strcmp(other->name, current->name) != 0 && other->weights == current->weights
        && search_offers(other, request->profile);
}

static bool probe_schedule(struct finding *finding, enum wanted wanted, const char *schedule, struct probe *result)
{
    struct search_request search = *finding->request->search;
    *result = (struct probe){ .change = what_if_schedule(&search, schedule, 0) };
    return probe(finding, wanted, &search, result);
}

static bool find_quickest(struct finding *finding, const struct generator *current, struct what_if *quickest,
                          size_t *count)
{
    for (const struct generator *other = generators; other->name && !is_over(finding); other++) {
        struct probe result = { .fits = false };
        if (is_instead(finding->request->search, current, other)
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
    const struct generator *current = search_generator(finding->request->search);
    struct what_if quickest[MOST_SCHEDULES], shown[MOST_SCHEDULES];
    size_t count = 0, shown_count = 0;
    if (current->is_inference)
        return true;
    bool good = find_quickest(finding, current, quickest, &count);
    for (size_t i = 0; good && i < count; i++) {
        struct probe planned;
        good = probe_schedule(finding, SHOWN, quickest[i].row.schedule, &planned);
        keep_quickest(shown, &shown_count, planned.fits ? &planned.change : &quickest[i]);
    }
    for (size_t i = 0; good && i < count; i++)
        good = add(finding, &shown[i]);
    return good;
}

static uint64_t state_bytes(const struct search_request *search, enum optimizer_kind kind)
{
    struct storage storage = search->storage;
    uint64_t sum = 0;
    storage.optimizer = kind;
    for (uint32_t l = 0; l < search->profile->layer_count; l++)
        sum = add_clamped(sum, storage_state_bytes(&storage, search->profile, l));
    return sum;
}

// Finds the optimizer with the most state below this number of bytes; if several are equal, the first. False if there
// is none.
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

// A sequence of ways to hold states, by number; false after the last one.
typedef bool next_storage(struct search_request *search, unsigned number, struct what_if *change);

// The sharding modes: what replicas hold only once between them.
static bool next_shard(struct search_request *search, unsigned number, struct what_if *change)
{
    const unsigned shard = search->storage.shard + 1 + number;
    if (shard > SHARD_WEIGHTS || (!search->layout.replicas && !search->free.replicas))
        return false;
    *change = what_if_shard(search, (enum shard)shard);
    return true;
}

// What is on the host, if there is one: optimizer state, kept activations, both.
static bool next_host(struct search_request *search, unsigned number, struct what_if *change)
{
    if (!search->cluster->has_host || number > 2)
        return false;
    *change = what_if_host(search, number != 1, number != 0);
    return true;
}

// Other optimizers, in order of decreasing state.
static bool next_optimizer(struct search_request *search, unsigned number, struct what_if *change)
{
    enum optimizer_kind kind = search->storage.optimizer;
    for (unsigned i = 0; i <= number; i++)
        if (!find_optimizer(search, state_bytes(search, kind), &kind))
            return false;
    *change = what_if_optimizer(search, kind);
    return true;
}

// Adds the first way that is enough.
static bool nearest_storage(struct finding *finding, next_storage *next)
{
    const struct search_request *unchanged = finding->request->search;
    struct search_request search = *unchanged;
    struct what_if change;
    bool found = false;
    for (unsigned number = 0; !found && next(&search, number, &change); number++, search = *unchanged) {
        const struct storage *now = &search.storage, *before = &unchanged->storage;
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
    struct probe probed = { .fits = false };
    *nearest = (struct nearest){ .count = 0 };
    const bool good = probe(&finding, FITS, request->search, &probed)
                   && (probed.fits
                       || (nearest_memory(&finding, &probed) && nearest_micro_batches(&finding, probed.certainly_not)
                           && nearest_ranks(&finding) && nearest_schedules(&finding)
                           && nearest_storage(&finding, next_shard) && nearest_storage(&finding, next_host)
                           && nearest_storage(&finding, next_optimizer)));
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
