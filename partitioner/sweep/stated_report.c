// Prints a judged layout as a screen for people, and as the document weir.judgement.
#include <math.h>

#include "common/json.h"
#include "common/number.h"
#include "common/shown.h"
#include "partitioner/sweep/stated_weeks.h"
#include "profiler/estimate/framework.h"

static uint64_t whole(double number)
{
    return number >= (double)JSON_MAX ? JSON_MAX : number <= 0 ? 0 : (uint64_t)llround(number);
}

static const char *products_of(const struct judgement *judgement)
{
    const struct estimate_request *how = &judgement->estimate.request;
    return how->products ? how->products : how->dtype;
}

// --- for people ---------------------------------------------------------------------------------------------------

static const char *again_of(const struct stated_request *request)
{
    return request->recompute.said ? request->recompute.said : "none";
}

static void print_layout(const struct judgement *judgement, struct text *text)
{
    const struct stated_request *request = &judgement->request;
    const struct estimate_request *how = &judgement->estimate.request;
    shown_add(text, "%s", request->model->name);
    text_add(text, " of %.4g billion parameters on %llu x ", (double)transformer_parameters(request->model) / 1e9,
             (unsigned long long)judgement->devices);
    shown_add(text, "%s", request->device->name);
    text_add(text, ", as stated:\ntensor %llu, context %llu, expert %llu, pipeline %u", (unsigned long long)how->tensor,
             (unsigned long long)how->context, (unsigned long long)how->expert, request->ranks);
    if (request->chunks > 1)
        text_add(text, " of %u stages each", request->chunks);
    text_add(text, ", data %llu, shared: %s", (unsigned long long)request->how.data,
             estimate_shard_words[how->shard]);
    text_add(text, ";\n%u %s of %llu x %llu tokens", request->micro_batches,
             request->micro_batches == 1 ? "micro-batch" : "micro-batches", (unsigned long long)how->micro_batch,
             (unsigned long long)how->sequence);
    text_add(text, ", %s; run again: %s", request->ranks > 1 ? request->schedule : "one rank", again_of(request));
    text_add(text, "; estimated\n");
    framework_say(framework_of(how), text);
}

static void print_share(const char *what, double ns, const struct judgement *judgement, struct text *text)
{
    char number[NUMBER_SIZE];
    if (ns >= 0.5)
        text_add(text, "  %-28s %8s  %5.1f %%\n", what, time_format(whole(ns), number),
                 100 * ns / (double)judgement->iteration_ns);
}

static void print_time(const struct judgement *judgement, struct text *text)
{
    const struct stated_time *time = &judgement->time;
    const struct rated_product *product = rated_device_product(judgement->request.device, products_of(judgement));
    char number[NUMBER_SIZE];
    text_add(text, "\nAn iteration takes %s: %.1f %% of the peak of %s, %.4g TFLOP/s a device (MFU), %.0f tokens/s a"
                   " device.\n",
             time_format(judgement->iteration_ns, number), 100 * judgement->utilization, product->dtype,
             (double)product->gigaflops / 1e3, judgement->tokens_per_second);
    text_add(text, "Where it goes, on rank %u, which has most to do:\n", judgement->busiest);
    print_share("products", time->products_ns, judgement, text);
    print_share("attention", time->attention_ns, judgement, text);
    print_share("passes over memory", time->passes_ns, judgement, text);
    print_share("messages within layers", time->messages_ns, judgement, text);
    print_share("waiting for launches", time->host_ns, judgement, text);
    print_share("run again", time->again_ns, judgement, text);
    print_share("waiting for other ranks", time->waiting_ns, judgement, text);
    print_share("adding up gradients", time->reduce_ns, judgement, text);
    print_share("update", time->update_ns, judgement, text);
}

static void print_bytes_of(const char *what, double bytes, struct text *text)
{
    char number[NUMBER_SIZE];
    if (bytes >= 0.5)
        text_add(text, "  %-28s %10s\n", what, bytes_format(whole(bytes), number));
}

static void print_fit(const struct judgement *judgement, struct text *text)
{
    const double left = judgement->memory_bytes - judgement->reserved_bytes
        - judgement->bytes[judgement->fullest].given_out;
    const double headroom = config_headroom(judgement->request.model, judgement->estimate.request.shard);
    const double needed = headroom * judgement->bytes[judgement->fullest].given_out;
    char number[NUMBER_SIZE], memory[NUMBER_SIZE], driver[NUMBER_SIZE];
    text_add(text, "Of %s driver and libraries take %s: ", bytes_format(whole(judgement->memory_bytes), memory),
             bytes_format(whole(judgement->reserved_bytes), driver));
    if (!judgement->fits)
        text_add(text, "it does not fit, by %s.\n", bytes_format(whole(-left), number));
    else
        text_add(text, "it fits, with %s to spare%s.\n", bytes_format(whole(left), number),
                 left < needed ? ", which is near" : "");
    config_say_headroom(judgement->request.model, judgement->estimate.request.shard, text);
    text_add(text, ".\n");
}

static void print_memory(const struct judgement *judgement, struct text *text)
{
    const struct stated_bytes *bytes = &judgement->bytes[judgement->fullest];
    text_add(text, "\nBytes of rank %u, which holds most:\n", judgement->fullest);
    print_bytes_of("weights", bytes->weights, text);
    print_bytes_of("gradients", bytes->gradients, text);
    print_bytes_of("optimizer", bytes->optimizer, text);
    print_bytes_of("activations", bytes->activations, text);
    print_bytes_of("workspace", bytes->workspace, text);
    print_bytes_of("given out, at most", bytes->given_out, text);
    print_bytes_of("reserved, with what is cached", bytes->reserved, text);
    print_fit(judgement, text);
}

static void print_best(const struct judgement *judgement, const struct stated_more *found, struct text *text)
{
    const struct config_sweep *sweep = found->sweep;
    const struct judgement *judged = found->judged;
    char time[NUMBER_SIZE], planned[NUMBER_SIZE], peak[NUMBER_SIZE];
    text_add(text, "\n");
    if (!sweep->best) {
        text_add(text, "No plan on the same devices %s.\n", sweep->stopped[0] ? "was found until it ended" : "fits");
        return;
    }
    const struct config_row *best = sweep->best;
    const double less = 1 - (double)judged->iteration_ns / (double)judgement->iteration_ns;
    text_add(text, "The best plan on the same devices takes %s, %.1f %% %s, and %s:\n",
             time_format(judged->iteration_ns, time), 100 * fabs(less), less >= 0 ? "less" : "more",
             bytes_format(whole(judged->bytes[judged->fullest].given_out), peak));
    text_add(text, "tensor %u, context %u, expert %u, pipeline %u", best->tensor, best->context, best->expert,
             best->ranks);
    if (best->chunks > 1)
        text_add(text, " of %u stages each", best->chunks);
    text_add(text, ", data %u, shared: %s, %u x %u by %s", best->data, estimate_shard_words[best->shard],
             best->micro_batches, best->micro_batch, best->schedule);
    text_add(text, " (planned for %s).\n", time_format(best->iteration_ns, planned));
}

void judgement_print(const struct judgement *judgement, const struct stated_more *more, struct text *text)
{
    print_layout(judgement, text);
    print_time(judgement, text);
    print_memory(judgement, text);
    if (more->weeks)
        weeks_print(more->weeks, judgement, text);
    if (more->sweep)
        print_best(judgement, more, text);
}

// --- the document -------------------------------------------------------------------------------------------------

static void write_time(const struct judgement *judgement, struct json_writer *writer)
{
    const struct stated_time *time = &judgement->time;
    json_begin_object(writer, "time", JSON_LINES);
    json_put_u64(writer, "rank", judgement->busiest);
    json_put_u64(writer, "products_ns", whole(time->products_ns));
    json_put_u64(writer, "attention_ns", whole(time->attention_ns));
    json_put_u64(writer, "passes_ns", whole(time->passes_ns));
    json_put_u64(writer, "messages_ns", whole(time->messages_ns));
    json_put_u64(writer, "host_ns", whole(time->host_ns));
    json_put_u64(writer, "again_ns", whole(time->again_ns));
    json_put_u64(writer, "waiting_ns", whole(time->waiting_ns));
    json_put_u64(writer, "reduce_ns", whole(time->reduce_ns));
    json_put_u64(writer, "update_ns", whole(time->update_ns));
    json_close(writer);
}

static void write_rank(const struct stated_bytes *bytes, struct json_writer *writer)
{
    json_begin_object(writer, NULL, JSON_INLINE);
    json_put_u64(writer, "weights_bytes", whole(bytes->weights));
    json_put_u64(writer, "gradients_bytes", whole(bytes->gradients));
    json_put_u64(writer, "optimizer_bytes", whole(bytes->optimizer));
    json_put_u64(writer, "activations_bytes", whole(bytes->activations));
    json_put_u64(writer, "workspace_bytes", whole(bytes->workspace));
    json_put_u64(writer, "given_out_bytes", whole(bytes->given_out));
    json_put_u64(writer, "reserved_bytes", whole(bytes->reserved));
    json_close(writer);
}

static void write_layout(const struct judgement *judgement, struct json_writer *writer)
{
    const struct stated_request *request = &judgement->request;
    const struct estimate_request *how = &judgement->estimate.request;
    json_put_u64(writer, "devices", judgement->devices);
    json_put_u64(writer, "tensor", how->tensor);
    json_put_u64(writer, "context", how->context);
    json_put_u64(writer, "expert", how->expert);
    json_put_u64(writer, "ranks", request->ranks);
    json_put_u64(writer, "chunks", request->chunks);
    json_put_u64(writer, "data", request->how.data);
    json_put_string(writer, "placement", config_placement_names[request->placement]);
    json_put_string(writer, "shard", estimate_shard_words[how->shard]);
    json_put_u64(writer, "micro_batch", how->micro_batch);
    json_put_u64(writer, "micro_batches", request->micro_batches);
    json_put_u64(writer, "sequence", how->sequence);
    json_put_string(writer, "schedule", request->schedule);
    json_put_string(writer, "recompute", again_of(request));
}

static void write_best(const struct stated_more *found, struct json_writer *writer)
{
    const struct config_row *best = found->sweep->best;
    json_begin_object(writer, "best", JSON_INLINE);
    json_put_u64(writer, "tensor", best->tensor);
    json_put_u64(writer, "context", best->context);
    json_put_u64(writer, "expert", best->expert);
    json_put_u64(writer, "ranks", best->ranks);
    json_put_u64(writer, "chunks", best->chunks);
    json_put_u64(writer, "data", best->data);
    json_put_string(writer, "shard", estimate_shard_words[best->shard]);
    json_put_u64(writer, "micro_batch", best->micro_batch);
    json_put_u64(writer, "micro_batches", best->micro_batches);
    json_put_string(writer, "schedule", best->schedule);
    json_put_u64(writer, "iteration_ns", found->judged->iteration_ns);
    json_put_u64(writer, "given_out_bytes", whole(found->judged->bytes[found->judged->fullest].given_out));
    json_put_u64(writer, "planned_ns", best->iteration_ns);
    json_put_u64(writer, "planned_bytes", best->peak_bytes);
    json_close(writer);
}

void judgement_write(const struct judgement *judgement, const struct stated_more *more, struct text *text)
{
    const struct estimate_request *how = &judgement->estimate.request;
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.judgement");
    json_put_string(&writer, "model", judgement->request.model->name);
    json_put_string(&writer, "device", judgement->request.device->name);
    json_put_string(&writer, "like", framework_of(how)->name);
    write_layout(judgement, &writer);
    json_put_u64(&writer, "iteration_ns", judgement->iteration_ns);
    json_put_fraction(&writer, "utilization", judgement->utilization);
    json_put_string(&writer, "peak_of", products_of(judgement));
    json_put_fraction(&writer, "tokens_per_second", judgement->tokens_per_second);
    write_time(judgement, &writer);
    json_put_bool(&writer, "fits", judgement->fits);
    json_put_u64(&writer, "memory_bytes", whole(judgement->memory_bytes));
    json_put_u64(&writer, "driver_bytes", whole(judgement->reserved_bytes));
    json_put_u64(&writer, "fullest", judgement->fullest);
    json_begin_array(&writer, "ranks_bytes", JSON_LINES);
    for (uint32_t rank = 0; rank < judgement->request.ranks; rank++)
        write_rank(&judgement->bytes[rank], &writer);
    json_close(&writer);
    if (more->weeks)
        weeks_write(more->weeks, &writer);
    if (more->sweep && more->sweep->best)
        write_best(more, &writer);
    json_close(&writer);
}
