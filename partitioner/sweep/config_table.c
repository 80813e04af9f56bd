// Prints a sweep over configurations as a table, as the document weir.configs, and as lines for other programs.

#include "common/json.h"
#include "common/number.h"
#include "common/shown.h"
#include "partitioner/sweep/config_sweep.h"
#include "profiler/estimate/framework.h"

// --- for people ---------------------------------------------------------------

static const char *outer_dimensions(const struct config_row *row)
{
    return row->ranks == 1 || row->data == 1 ? "     " : config_placement_ends[row->placement];
}

// The cost of 10^9 tokens.
static void print_cost(const struct config_sweep *sweep, uint64_t ns, struct text *text)
{
    if (sweep->request.price > 0)
        text_add(text, "%9.4g  ", config_price(sweep, ns));
    if (sweep->request.watts > 0)
        text_add(text, "%9.4g  ", config_energy(sweep, ns));
}

static void print_row(const struct config_sweep *sweep, const struct config_row *row, struct text *text)
{
    char time[NUMBER_SIZE], peak[NUMBER_SIZE], between[NUMBER_SIZE];
    const uint64_t ns = row->outcome == CONFIG_PLANNED ? row->iteration_ns : row->lower_bound_ns;
    text_add(text, "%c %2u %3u %3u %3u %4u %s %-9s %2u %4u %-11s %2u %c%7s %5.1f %6.0f",
             row->is_best       ? '*'
             : row->is_on_front ? '+'
                                : ' ',
             row->tensor, row->context, row->expert, row->ranks, row->data, outer_dimensions(row),
             estimate_shard_words[row->shard], row->micro_batch, row->micro_batches, row->schedule, row->chunks,
             row->outcome == CONFIG_PLANNED ? ' ' : '>', time_format(ns, time), 100 * config_utilization(sweep, ns),
             config_tokens_per_second(sweep, ns));
    if (row->outcome == CONFIG_PLANNED)
        text_add(text, " %5.1f %7s %8s ", 100 * row->bubble, time_format(row->between_ns, between),
                 bytes_format(row->peak_bytes, peak));
    else
        text_add(text, " %5s %7s %8s ", "", time_format(row->between_ns, between), "");
    print_cost(sweep, ns, text);
    shown_add(text, "%s", row->reason);
    text_add(text, "\n");
}

static void print_rows(const struct config_sweep *sweep, struct text *text)
{
    const struct config_row *shown[CONFIG_MOST_SHOWN];
    const size_t count = config_shown(sweep, shown);
    text_add(text, "\n   t   c   e   p    d order shared     b    m schedule     v  iterat.   MFU  tok/s  idle between"
                   "     peak %s%swhy not\n",
             sweep->request.price > 0 ? "price/10^9 " : "", sweep->request.watts > 0 ? "kWh/10^9t  " : "");
    for (size_t i = 0; i < count; i++) {
        const struct config_row *open = config_open_row(sweep, shown[i]);
        print_row(sweep, open ? open : shown[i], text);
    }
    text_add(text,
             "\n* best, + on the front of time against bytes; of each way to share out (tensor t, context c, expert e,"
             " pipeline p, data\nd, the order of these two in which devices stand, and what data parallel ones hold"
             " once) the best that was planned or,\nbehind >, the least bound where one that was not planned may be"
             " quicker by a hundredth and more. Micro-batches of b\nsequences, m of them; v stages on each rank;"
             " tokens are each device's. Why not: most of what it takes more, of the best's\ntime: layers, waiting"
             " (and running again), or between iterations.\n");
}

static void print_counts(const struct config_sweep *sweep, struct text *text)
{
    const size_t *counts = sweep->counts;
    text_add(text,
             "Of %zu configurations %zu were planned, %zu cannot be as quick, or no quicker plan of them was found,"
             " %zu cannot be by their\nbounds alone, %zu do not fit, %zu cannot be",
             sweep->count, counts[CONFIG_PLANNED], counts[CONFIG_NOT_QUICKER], counts[CONFIG_BOUNDED],
             counts[CONFIG_DOES_NOT_FIT], counts[CONFIG_REFUSED]);
    if (counts[CONFIG_NOT_TRIED])
        text_add(text, ", %zu were not tried (%s)", counts[CONFIG_NOT_TRIED], sweep->stopped);
    text_add(text, "; %zu ways to share out do not divide the model.\n", sweep->refused_degrees);
}

// Says whether the slow devices are worth using.
static void print_slow(const struct config_sweep *sweep, struct text *text)
{
    const struct config_request *request = &sweep->request;
    const uint64_t with = sweep->best->iteration_ns, without = config_left_out_ns(sweep);
    char time[NUMBER_SIZE], other[NUMBER_SIZE];
    if (!request->slow)
        return;
    text_add(text, "With %u of the devices at %.3g %% of the rate an iteration takes %s, ", request->slow,
             (double)request->slow_permille / 10, time_format(with, time));
    if (!without)
        text_add(text, "and without them no plan fits.\n");
    else if (without < with)
        text_add(text, "without them %s: leave them out, %u in all, which is %.1f %% quicker.\n",
                 time_format(without, other), request->without + request->slow,
                 100 * (1 - (double)without / (double)with));
    else
        text_add(text, "without them %s: let them take part, which is %.1f %% quicker.\n", time_format(without, other),
                 100 * (1 - (double)with / (double)without));
}

// The best row that is shared out in another way.
static void print_next(const struct config_sweep *sweep, struct text *text)
{
    const struct config_row *shown[CONFIG_MOST_SHOWN];
    const struct config_row *next = config_shown(sweep, shown) > 1 ? shown[1] : NULL;
    char time[NUMBER_SIZE], peak[NUMBER_SIZE];
    if (!next || next->outcome != CONFIG_PLANNED)
        return;
    text_add(text, "Next to it: tensor %u, context %u, expert %u, pipeline %u, data %u, shared: %s: %s, %.1f %% more,"
                   " in %s.\n",
             next->tensor, next->context, next->expert, next->ranks, next->data, estimate_shard_words[next->shard],
             time_format(next->iteration_ns, time),
             100 * ((double)next->iteration_ns / (double)sweep->best->iteration_ns - 1),
             bytes_format(next->peak_bytes, peak));
}

static void print_best(const struct config_sweep *sweep, struct text *text)
{
    const struct config_row *best = sweep->best;
    char time[NUMBER_SIZE], peak[NUMBER_SIZE], memory[NUMBER_SIZE];
    if (!best) {
        text_add(text, "None of them fits in %s per device.\n", bytes_format(sweep->memory_bytes, memory));
        return;
    }
    const double gap = 1 - (double)sweep->lower_bound_ns / (double)best->iteration_ns;
    text_add(text, "Best: tensor %u, context %u, expert %u, pipeline %u, data %u, shared: %s; %u %s of %u by %s",
             best->tensor, best->context, best->expert, best->ranks, best->data, estimate_shard_words[best->shard],
             best->micro_batches, best->micro_batches == 1 ? "micro-batch" : "micro-batches", best->micro_batch,
             best->schedule);
    text_add(text, " with ");
    text_add_count(text, best->chunks, "stage", "stages");
    const struct estimate_request *how = &sweep->request.how;
    text_add(text, " a rank:\n%s an iteration, %.1f %% of the peak of %s (MFU), %.0f tokens/s a device, %s of %s.\n",
             time_format(best->iteration_ns, time), 100 * config_utilization(sweep, best->iteration_ns),
             how->products ? how->products : how->dtype, config_tokens_per_second(sweep, best->iteration_ns),
             bytes_format(best->peak_bytes, peak),
             bytes_format(sweep->memory_bytes, memory));
    if (!sweep->request.memory_bytes) {
        config_say_headroom(sweep->request.model, best->shard, text);
        text_add(text, ", for which there is room.\n");
    }
    print_next(sweep, text);
    if (sweep->request.price > 0)
        text_add(text, "A billion tokens cost %.4g, at %.4g for a device and an hour.\n",
                 config_price(sweep, best->iteration_ns), sweep->request.price);
    if (sweep->request.watts > 0)
        text_add(text, "A billion tokens take %.4g kWh, at %.4g W for a device.\n",
                 config_energy(sweep, best->iteration_ns), sweep->request.watts);
    text_add(text, "Devices stand as %s: ", config_placement_names[best->placement]);
    config_say_levels(&sweep->request, best, text);
    text_add(text, ".\n");
    print_slow(sweep, text);
    const uint64_t used = (uint64_t)best->tensor * best->context * best->ranks * best->data;
    if (used < sweep->request.devices)
        text_add(text, "%llu of %u devices have work.\n", (unsigned long long)used, sweep->request.devices);
    if (sweep->lower_bound_ns >= best->iteration_ns)
        text_add(text, "No configuration of the space has a quicker plan.\n");
    else
        text_add(text, "No plan of any configuration of the space is quicker by more than %.1f %%.\n", 100 * gap);
}

void config_print(const struct config_sweep *sweep, struct text *text)
{
    const struct config_request *request = &sweep->request;
    shown_add(text, "%s", request->model->name);
    text_add(text, " of %.4g billion parameters on %u x ", (double)transformer_parameters(request->model) / 1e9,
             request->devices);
    shown_add(text, "%s", request->device->name);
    text_add(text, ", %llu sequences of %llu tokens an iteration, ", (unsigned long long)request->global_batch,
             (unsigned long long)request->how.sequence);
    storage_say(&request->storage, text);
    text_add(text, "; estimated\n");
    if (request->how.like)
        framework_say(request->how.like, text);
    if (sweep->best)
        print_rows(sweep, text);
    print_counts(sweep, text);
    print_best(sweep, text);
}

// --- the document -------------------------------------------------------------

static void write_cost(struct json_writer *writer, const struct config_sweep *sweep, const struct config_row *row)
{
    const uint64_t ns = row->iteration_ns;
    if (sweep->request.price > 0)
        json_put_fraction(writer, "price", ns ? config_price(sweep, ns) : 0);
    if (sweep->request.watts > 0)
        json_put_fraction(writer, "kwh", ns ? config_energy(sweep, ns) : 0);
}

static void write_row(struct json_writer *writer, const struct config_sweep *sweep, const struct config_row *row)
{
    json_begin_object(writer, NULL, JSON_INLINE);
    json_put_u64(writer, "tensor", row->tensor);
    json_put_u64(writer, "context", row->context);
    json_put_u64(writer, "expert", row->expert);
    json_put_u64(writer, "ranks", row->ranks);
    json_put_u64(writer, "data", row->data);
    json_put_string(writer, "placement", config_placement_names[row->placement]);
    json_put_string(writer, "shard", estimate_shard_words[row->shard]);
    json_put_u64(writer, "micro_batch", row->micro_batch);
    json_put_u64(writer, "micro_batches", row->micro_batches);
    json_put_string(writer, "schedule", row->schedule);
    json_put_u64(writer, "chunks", row->chunks);
    json_put_string(writer, "outcome", config_outcome_names[row->outcome]);
    json_put_u64(writer, "iteration_ns", row->iteration_ns);
    json_put_u64(writer, "lower_bound_ns", row->outcome == CONFIG_NOT_TRIED ? row->bound_ns : row->lower_bound_ns);
    json_put_u64(writer, "between_ns", row->between_ns);
    json_put_u64(writer, "peak_bytes", row->peak_bytes);
    json_put_fraction(writer, "bubble", row->bubble);
    write_cost(writer, sweep, row);
    json_put_bool(writer, "front", row->is_on_front);
    json_put_bool(writer, "best", row->is_best);
    json_put_string(writer, "reason", row->reason);
    json_close(writer);
}

static void write_slow(const struct config_sweep *sweep, struct json_writer *writer)
{
    const struct config_request *request = &sweep->request;
    if (!request->slow)
        return;
    json_begin_object(writer, "slow", JSON_INLINE);
    json_put_u64(writer, "devices", request->slow);
    json_put_u64(writer, "permille", request->slow_permille);
    json_put_u64(writer, "left_out_ns", config_left_out_ns(sweep));
    json_close(writer);
}

void config_write(const struct config_sweep *sweep, struct text *text)
{
    const struct config_request *request = &sweep->request;
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.configs");
    json_put_string(&writer, "model", request->model->name);
    json_put_string(&writer, "device", request->device->name);
    json_put_string(&writer, "like", request->how.like ? request->how.like->name : "");
    json_put_u64(&writer, "parameters", transformer_parameters(request->model));
    json_put_u64(&writer, "devices", request->devices);
    if (request->without)
        json_put_u64(&writer, "without", request->without);
    write_slow(sweep, &writer);
    json_put_u64(&writer, "global_batch", request->global_batch);
    json_put_u64(&writer, "sequence", request->how.sequence);
    json_put_u64(&writer, "memory_bytes", sweep->memory_bytes);
    storage_write(&request->storage, &writer);
    json_put_u64(&writer, "lower_bound_ns", sweep->best ? sweep->lower_bound_ns : 0);
    json_put_fraction(&writer, "utilization", sweep->best ? config_utilization(sweep, sweep->best->iteration_ns) : 0);
    json_begin_array(&writer, "rows", JSON_LINES);
    for (size_t i = 0; i < sweep->count; i++)
        write_row(&writer, sweep, &sweep->rows[i]);
    json_close(&writer);
    json_put_string(&writer, "stopped", sweep->stopped);
    json_close(&writer);
}

void config_write_csv(const struct config_sweep *sweep, struct text *text)
{
    text_add(text,
             "tensor,context,expert,ranks,data,placement,shard,micro_batch,micro_batches,schedule,chunks,outcome,"
             "iteration_ns,lower_bound_ns,between_ns,peak_bytes,bubble,front,best%s%s\n",
             sweep->request.price > 0 ? ",price" : "", sweep->request.watts > 0 ? ",kwh" : "");
    for (size_t i = 0; i < sweep->count; i++) {
        const struct config_row *row = &sweep->rows[i];
        text_add(text, "%u,%u,%u,%u,%u,%s,%s,%u,%u,%s,%u,%s,%llu,%llu,%llu,%llu,%.6f,%d,%d", row->tensor, row->context,
                 row->expert, row->ranks, row->data, config_placement_names[row->placement],
                 estimate_shard_words[row->shard], row->micro_batch, row->micro_batches, row->schedule, row->chunks,
                 config_outcome_names[row->outcome], (unsigned long long)row->iteration_ns,
                 (unsigned long long)(row->outcome == CONFIG_NOT_TRIED ? row->bound_ns : row->lower_bound_ns),
                 (unsigned long long)row->between_ns, (unsigned long long)row->peak_bytes, row->bubble,
                 row->is_on_front, row->is_best);
        if (sweep->request.price > 0)
            text_add(text, ",%.6g", row->iteration_ns ? config_price(sweep, row->iteration_ns) : 0);
        if (sweep->request.watts > 0)
            text_add(text, ",%.6g", row->iteration_ns ? config_energy(sweep, row->iteration_ns) : 0);
        text_add(text, "\n");
    }
}
