#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/weir_options.h"
#include "api/weir_pricing.h"
#include "schedules/check.h"
#include "schedules/csv.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/search/order_search.h"

// --- by name and from documents --------------------------------------------------------

static bool is_complete(const struct weir_generate_options *options, struct error *error)
{
    if (!options->name)
        return error_set(error, "weir_generate_options.name is needed: \"1f1b\", \"gpipe\", \"zb-h1\", ...");
    if (options->ranks == 0 || options->micro_batches == 0)
        return error_set(error, "weir_generate_options.%s is needed: 1 or more",
                         options->ranks == 0 ? "ranks" : "micro_batches");
    return true;
}

struct weir_schedule *weir_schedule_generate(const struct weir_generate_options *options, struct weir_error *error)
{
    struct weir_generate_options chosen;
    if (!given_generate_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    const struct generate_request request = {
        .ranks = chosen.ranks,
        .micro_batches = chosen.micro_batches,
        .chunks = chosen.chunks,
        .splits = chosen.splits,
        .replicas = chosen.replicas.count > 0 ? chosen.replicas.at : NULL,
        .stages = (uint32_t)chosen.replicas.count,
        .into = { .segments = chosen.segments, .open = chosen.passes },
    };
    struct schedule *schedule =
        is_complete(&chosen, &reason) ? schedule_generate_as(chosen.name, &request, &reason) : NULL;
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

static bool write_csv(const struct schedule *schedule, const struct weir_csv_options *options, struct text *text,
                      struct error *error)
{
    struct csv_style style = { .line_feeds = options->line_feeds };
    struct csv_left_out left_out;
    unsigned dialect;
    if (!given_choice(options->dialect ? options->dialect : csv_dialect_names[CSV_TORCH_2_9], "dialect",
                      csv_dialect_names, &dialect, error))
        return false;
    style.dialect = (enum csv_dialect)dialect;
    if (!schedule_can_run(schedule, error))
        return false;
    if (!options->lowered || schedule->lowered)
        return csv_write(schedule, &style, text, &left_out, error);
    struct schedule *lowered = schedule_lower(schedule, error);
    const bool good = lowered && csv_write(lowered, &style, text, &left_out, error);
    schedule_free(lowered);
    return good;
}

char *weir_schedule_csv(const struct weir_schedule *schedule, const struct weir_csv_options *options,
                        struct weir_error *error)
{
    struct weir_csv_options chosen;
    if (!is_there(schedule, "schedule", error) || !given_csv_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct text text = { 0 };
    const bool good = write_csv(schedule->schedule, &chosen, &text, &reason);
    return hand_made(good, &text, &reason, error);
}

// --- check -----------------------------------------------------------------------------

// Checks the schedule with these options: where receives are placed, costs, and limits.
static bool check(const struct schedule *schedule, const struct weir_check_options *options, struct text *text,
                  struct error *error)
{
    static const char *const receives_names[] = { "early", "late", "timed", NULL };
    unsigned receives;
    struct priced priced = { .schedule = NULL };
    struct check_result result;
    if (!given_choice(options->receives, "receives", receives_names, &receives, error)
        || !price(schedule, options->price, options->receives != NULL, &priced, error))
        return false;
    bool good = options->memory_bytes == 0 || priced_limit_memory(&priced, options->memory_bytes, error);
    const struct check_request request = {
        .capacity = options->buffered_sends,
        .grouped = options->grouped,
        .receives = (enum receives)receives,
        .shared = options->shared_channels,
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

char *weir_schedule_check(const struct weir_schedule *schedule, const struct weir_check_options *options,
                          struct weir_error *error)
{
    struct weir_check_options chosen;
    struct weir_price_options costs;
    if (!is_there(schedule, "schedule", error) || !given_check_options(options, &chosen, error)
        || !given_price_options(chosen.price, &costs, error))
        return NULL;
    chosen.price = &costs;
    struct error reason = { 0 };
    struct text text = { 0 };
    const bool good = check(schedule->schedule, &chosen, &text, &reason);
    return hand_made(good, &text, &reason, error);
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

static bool request_of(const struct weir_search_options *options, struct order_request *request, struct error *error)
{
    unsigned placement, objective;
    if (options->ranks == 0 || options->micro_batches == 0)
        return error_set(error, "weir_search_options.%s is needed: 1 or more",
                         options->ranks == 0 ? "ranks" : "micro_batches");
    if (!options->price->costs)
        return error_set(error, "weir_price_options.costs is needed: \"18522us,18086us,9337us,601us\", F, I, W and a"
                         " message's latency, or a document's text");
    if (options->ranks > UINT16_MAX || options->chunks > UINT16_MAX)
        return error_set(error, "%s: is more than %d", options->ranks > UINT16_MAX ? "ranks" : "chunks", UINT16_MAX);
    if (!given_choice(options->placement, "placement", order_placement_names, &placement, error)
        || !given_choice(options->objective, "objective", order_objective_names, &objective, error))
        return false;
    *request = (struct order_request){
        .ranks = options->ranks,
        .micro_batches = options->micro_batches,
        .chunks = options->chunks ? options->chunks : order_usual_chunks((enum order_placement)placement),
        .placement = (enum order_placement)placement,
        .memory_bytes = options->memory_bytes,
        .objective = (enum order_objective)objective,
        .budget = options->budget,
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

struct weir_schedule *weir_search(const struct weir_search_options *options, struct weir_found *found,
                                  struct weir_error *error)
{
    struct weir_search_options chosen;
    struct weir_price_options price;
    if (!given_search_options(options, &chosen, error) || !given_price_options(chosen.price, &price, error))
        return NULL;
    chosen.price = &price;
    struct error reason = { 0 };
    struct order_request request;
    struct order_found result = { .schedule = NULL };
    struct costs costs = { .rows = NULL };
    struct meter meter = { .watching.watch = chosen.watch,
                           .budget = chosen.budget ? chosen.budget : ORDER_DEFAULT_BUDGET };
    if (request_of(&chosen, &request, &reason)
        && given_costs(&price, request.ranks * request.chunks, &costs, &reason)) {
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
