#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/weir_handles.h"
#include "runtime/weir_pricing.h"
#include "schedules/check.h"
#include "schedules/csv.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/search/order_search.h"

// --- by name and from documents --------------------------------------------------------

static bool is_complete(const struct weir_generating *generating, struct error *error)
{
    if (!generating->name)
        return error_set(error, "generating.name is needed: \"1f1b\", \"gpipe\", \"zb-h1\", ...");
    if (generating->ranks == 0 || generating->micro_batches == 0)
        return error_set(error, "generating.%s is needed: 1 or more",
                         generating->ranks == 0 ? "ranks" : "micro_batches");
    return true;
}

struct weir_schedule *weir_schedule_generate(const struct weir_generating *generating, struct weir_error *error)
{
    static const struct weir_generating nothing;
    generating = generating ? generating : &nothing;
    struct error reason = { 0 };
    const struct generate_request request = {
        .ranks = generating->ranks,
        .micro_batches = generating->micro_batches,
        .chunks = generating->chunks,
        .splits = generating->splits,
        .replicas = generating->replicas.count > 0 ? generating->replicas.at : NULL,
        .stages = (uint32_t)generating->replicas.count,
    };
    struct schedule *schedule =
        is_complete(generating, &reason) ? schedule_generate_as(generating->name, &request, &reason) : NULL;
    return wrap_schedule(schedule, &reason, error);
}

static struct schedule *read_any(const char *text, size_t length, const char *name, struct error *error)
{
    size_t passed_over;
    return csv_is_likely(text, length) ? csv_read(text, length, name, &passed_over, error)
                                       : schedule_read(text, length, name, error);
}

struct weir_schedule *weir_schedule_read(const char *text, size_t length, const char *name, struct weir_error *error)
{
    struct error reason = { 0 };
    struct schedule *schedule = read_any(text, length, document_name(name), &reason);
    return wrap_schedule(schedule, &reason, error);
}

struct weir_schedule *weir_schedule_load(const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    size_t length;
    char *text = text_load(path, &length, &reason);
    struct schedule *schedule = text ? read_any(text, length, path, &reason) : NULL;
    free(text);
    return wrap_schedule(schedule, &reason, error);
}

bool weir_schedule_save(const struct weir_schedule *schedule, const char *path, struct weir_error *error)
{
    if (!is_there(schedule, "schedule", error))
        return false;
    struct text text = { 0 };
    schedule_write(schedule->schedule, &text);
    return save_text(&text, path, error);
}

char *weir_schedule_document(const struct weir_schedule *schedule, struct weir_error *error)
{
    if (!is_there(schedule, "schedule", error))
        return NULL;
    struct text text = { 0 };
    schedule_write(schedule->schedule, &text);
    return hand_text(&text, error);
}

void weir_schedule_free(struct weir_schedule *schedule)
{
    if (schedule)
        schedule_free(schedule->schedule);
    free(schedule);
}

// --- PyTorch's file --------------------------------------------------------------------

static bool write_csv(const struct schedule *schedule, const struct weir_csv *csv, struct text *text,
                      struct error *error)
{
    struct csv_style style = { .line_feeds = csv->line_feeds };
    struct csv_left_out left_out;
    unsigned dialect;
    if (!given_choice(csv->dialect ? csv->dialect : csv_dialect_names[CSV_TORCH_2_9], "dialect", csv_dialect_names,
                      &dialect, error))
        return false;
    style.dialect = (enum csv_dialect)dialect;
    if (!schedule_can_run(schedule, error))
        return false;
    if (!csv->lowered || schedule->lowered)
        return csv_write(schedule, &style, text, &left_out, error);
    struct schedule *lowered = schedule_lower(schedule, error);
    const bool good = lowered && csv_write(lowered, &style, text, &left_out, error);
    schedule_free(lowered);
    return good;
}

char *weir_schedule_csv(const struct weir_schedule *schedule, const struct weir_csv *csv, struct weir_error *error)
{
    if (!is_there(schedule, "schedule", error))
        return NULL;
    static const struct weir_csv usual;
    struct error reason = { 0 };
    struct text text = { 0 };
    if (write_csv(schedule->schedule, csv ? csv : &usual, &text, &reason))
        return hand_text(&text, error);
    text_clear(&text);
    tell(error, &reason);
    return NULL;
}

// --- check -----------------------------------------------------------------------------

// The schedule whose receives may be put elsewhere, priced and with its limits, and what it is held against.
static bool check(const struct schedule *schedule, const struct weir_checking *checking, struct text *text,
                  struct error *error)
{
    static const char *const receives_names[] = { "early", "late", "timed", NULL };
    unsigned receives;
    struct priced priced = { .schedule = NULL };
    struct check_result result;
    if (!given_choice(checking->receives, "receives", receives_names, &receives, error)
        || !price(schedule, checking->pricing, checking->receives != NULL, &priced, error))
        return false;
    bool good = checking->memory_bytes == 0 || priced_limit_memory(&priced, checking->memory_bytes, error);
    const struct check_request request = {
        .capacity = checking->buffered_sends,
        .grouped = checking->grouped,
        .receives = (enum receives)receives,
        .shared = checking->shared_channels,
        .most_in_group = NCCL_MOST_IN_GROUP,
        .limit_bytes = priced.capacity_bytes,
        .network = priced.network,
    };
    good = good && schedule_check_as(priced.schedule, &request, &result, error);
    if (good) {
        check_result_write(&result, text);
        check_result_clear(&result);
    }
    priced_clear(&priced);
    return good;
}

char *weir_schedule_check(const struct weir_schedule *schedule, const struct weir_checking *checking,
                          struct weir_error *error)
{
    if (!is_there(schedule, "schedule", error))
        return NULL;
    static const struct weir_checking usual;
    struct error reason = { 0 };
    struct text text = { 0 };
    if (check(schedule->schedule, checking ? checking : &usual, &text, &reason))
        return hand_text(&text, error);
    text_clear(&text);
    tell(error, &reason);
    return NULL;
}

// --- search ----------------------------------------------------------------------------

struct meter {
    struct watching watching;
    uint64_t work, budget;
};

static void tell_search(void *self, uint64_t units)
{
    struct meter *meter = self;
    meter->work += units;
    watching_tell(&meter->watching, "%llu of at most %llu units of work", (unsigned long long)meter->work,
                  (unsigned long long)meter->budget);
}

static bool request_of(const struct weir_searching *searching, struct order_request *request, struct error *error)
{
    unsigned placement, objective;
    if (searching->ranks == 0 || searching->micro_batches == 0)
        return error_set(error, "searching.%s is needed: 1 or more", searching->ranks == 0 ? "ranks" : "micro_batches");
    if (!searching->pricing.costs)
        return error_set(error, "searching.pricing.costs is needed: \"18522us,18086us,9337us,601us\", F, I, W and a"
                         " message's latency, or a document's text");
    if (searching->ranks > UINT16_MAX || searching->chunks > UINT16_MAX)
        return error_set(error, "%s: is more than %d", searching->ranks > UINT16_MAX ? "ranks" : "chunks", UINT16_MAX);
    if (!given_choice(searching->placement, "placement", order_placement_names, &placement, error)
        || !given_choice(searching->objective, "objective", order_objective_names, &objective, error))
        return false;
    *request = (struct order_request){
        .ranks = searching->ranks,
        .micro_batches = searching->micro_batches,
        .chunks = searching->chunks ? searching->chunks : order_usual_chunks((enum order_placement)placement),
        .placement = (enum order_placement)placement,
        .memory_bytes = searching->memory_bytes,
        .objective = (enum order_objective)objective,
        .budget = searching->budget,
    };
    return true;
}

static void note(const struct order_found *from, struct weir_found *to)
{
    *to = (struct weir_found){ .time_ns = from->time_ns, .bound_ns = from->bound_ns, .gap = order_gap(from),
                               .proved = from->proved, .work = from->work };
    snprintf(to->method, sizeof to->method, "%s", from->method);
    snprintf(to->stopped, sizeof to->stopped, "%s", from->stopped ? from->stopped : "");
}

struct weir_schedule *weir_search(const struct weir_searching *searching, struct weir_found *found,
                                  struct weir_error *error)
{
    static const struct weir_searching nothing;
    searching = searching ? searching : &nothing;
    struct error reason = { 0 };
    struct order_request request;
    struct order_found result = { .schedule = NULL };
    struct costs costs = { .rows = NULL };
    struct meter meter = { .watching.watch = searching->watch,
                           .budget = searching->budget ? searching->budget : ORDER_DEFAULT_BUDGET };
    if (request_of(searching, &request, &reason)
        && given_costs(&searching->pricing, request.ranks * request.chunks, &costs, &reason)) {
        request.costs = costs.rows;
        request.latency_ns = costs.latency_ns;
        request.interrupted = watching_stop(&meter.watching);
        request.progress = tell_search;
        request.self = &meter;
        if (order_search(&request, &result, &reason) && found)
            note(&result, found);
    }
    costs_clear(&costs);
    struct schedule *schedule = result.schedule;
    result.schedule = NULL;
    order_found_clear(&result);
    return wrap_schedule(schedule, &reason, error);
}
