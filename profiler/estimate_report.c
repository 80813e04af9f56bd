#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "common/json.h"
#include "common/number.h"
#include "profiler/estimate/estimate.h"
#include "profiler/estimate/framework.h"

static const char *const phase_names[ESTIMATE_PHASES] = { "forward", "backward_input", "backward_weight" };

static uint64_t whole(double ns)
{
    return ns >= (double)JSON_MAX ? JSON_MAX : (uint64_t)llround(ns);
}

// --- for people ---------------------------------------------------------------

static double sum_of(const struct layer_estimate *layer, size_t offset)
{
    double sum = 0;
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        sum += *(const double *)((const char *)&layer->phases[i] + offset);
    return sum;
}

static void add_time(struct text *text, double ns)
{
    char number[NUMBER_SIZE];
    text_add(text, "  %8s", time_format(whole(ns), number));
}

static void add_kinds_of_work(struct text *text, const struct layer_estimate *layer)
{
    static const size_t offsets[] = {
        offsetof(struct phase_estimate, products_ns), offsetof(struct phase_estimate, attention_ns),
        offsetof(struct phase_estimate, passes_ns), offsetof(struct phase_estimate, communication_ns),
        offsetof(struct phase_estimate, hidden_ns), offsetof(struct phase_estimate, waiting_ns),
    };
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        add_time(text, sum_of(layer, offsets[i]));
}

// What follows the name and the number of layers in a row.
static void add_columns(struct text *text, const struct estimate *estimate, const struct layer_estimate *layer,
                        double forward, double backward)
{
    const uint64_t bytes = layer->parameters * profile_dtype_bytes(estimate->request.dtype);
    char number[NUMBER_SIZE];
    add_time(text, forward);
    add_time(text, backward);
    add_kinds_of_work(text, layer);
    text_add(text, "  %8s", bytes_format(bytes, number));
    text_add(text, "  %8s\n", bytes_format(layer->saved_bytes, number));
}

static void add_heading(struct text *text, const struct estimate *estimate)
{
    const struct estimate_request *request = &estimate->request;
    text_add(text, "%s of %.4g billion parameters", estimate->model.name,
             (double)transformer_parameters(&estimate->model) / 1e9);
    if (estimate->model.predicted > 0)
        text_add(text, " (%.4g in its files, with tables again for what predicts further on)",
                 (double)transformer_file_parameters(&estimate->model) / 1e9);
    text_add(text, " on %s, estimated: a micro-batch of ", estimate->device.name);
    text_add(text, "%" PRIu64 " x %" PRIu64 " tokens, %s", request->micro_batch, request->sequence, request->dtype);
    if (request->products)
        text_add(text, " with products in %s", request->products);
    text_add(text, "; tensor %" PRIu64 ", context %" PRIu64 ", expert %" PRIu64 ", data %" PRIu64 "\n",
             request->tensor, request->context, request->expert, request->data);
    if (request->like)
        framework_say(request->like, text);
    text_add(text, "\n");
}

void estimate_print(const struct estimate *estimate, struct text *text)
{
    add_heading(text, estimate);
    text_add(text, "layer      count         F         B  products attention    passes  messages    hidden"
                   "      host    params     saved\n");
    struct layer_estimate all = { .parameters = 0 };
    double forward = 0, backward = 0;
    for (int i = 0; i < LAYER_PARTS; i++) {
        if (estimate->counts[i] == 0)
            continue;
        const struct layer_estimate *layer = &estimate->parts[i];
        const double count = (double)estimate->counts[i], forward_ns = phase_estimate_ns(&layer->phases[ESTIMATE_F]);
        const double backward_ns =
            phase_estimate_ns(&layer->phases[ESTIMATE_I]) + phase_estimate_ns(&layer->phases[ESTIMATE_W]);
        text_add(text, "%-9s  %5" PRIu64, estimate_part_name(&estimate->model, (enum layer_part)i),
                 estimate->counts[i]);
        add_columns(text, estimate, layer, forward_ns, backward_ns);
        forward += count * forward_ns;
        backward += count * backward_ns;
        for (int p = 0; p < ESTIMATE_PHASES; p++)
            phase_estimate_add(&all.phases[p], &layer->phases[p], count);
        all.parameters += estimate->counts[i] * layer->parameters;
        all.saved_bytes += estimate->counts[i] * layer->saved_bytes;
    }
    char number[NUMBER_SIZE];
    text_add(text, "%-9s  %5s", "total", "");
    add_columns(text, estimate, &all, forward, backward);
    text_add(text, "\nThe columns from products to host are of F and B together; what is hidden behind them is no part"
                   " of F and B.\n");
    text_add(text, "Between iterations, of the whole model: %s to add up gradients",
             time_format(whole(estimate->reduce_ns), number));
    text_add(text, ", %s to update.\n", time_format(whole(estimate->update_ns), number));
}

// --- the document -------------------------------------------------------------

static void write_phase(struct json_writer *writer, const char *name, const struct phase_estimate *phase)
{
    json_begin_object(writer, name, JSON_INLINE);
    json_put_u64(writer, "products_ns", whole(phase->products_ns));
    json_put_u64(writer, "attention_ns", whole(phase->attention_ns));
    json_put_u64(writer, "passes_ns", whole(phase->passes_ns));
    json_put_u64(writer, "communication_ns", whole(phase->communication_ns));
    json_put_u64(writer, "host_ns", whole(phase->waiting_ns));
    json_put_u64(writer, "hidden_ns", whole(phase->hidden_ns));
    json_close(writer);
}

static void write_part(struct json_writer *writer, const struct estimate *estimate, int part)
{
    static const char *const kept[] = { "none", "weight", "both" };
    const struct layer_estimate *layer = &estimate->parts[part];
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "kind", estimate_part_name(&estimate->model, (enum layer_part)part));
    json_put_u64(writer, "count", estimate->counts[part]);
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        write_phase(writer, phase_names[i], &layer->phases[i]);
    json_put_u64(writer, "parameters", layer->parameters);
    json_put_u64(writer, "expert_parameters", layer->expert_parameters);
    if (estimate->request.tuning.frozen) {
        json_put_u64(writer, "frozen_parameters", layer->frozen_parameters);
        json_put_u64(writer, "adapter_parameters", layer->adapter_parameters);
    }
    if (fine_tuning_is(&estimate->request.tuning)) {
        json_put_u64(writer, "flops", layer->flops);
        json_put_u64(writer, "backward_flops", 2 * layer->flops - layer->frozen_flops);
    }
    json_put_u64(writer, "output_bytes", layer->output_bytes);
    json_put_u64(writer, "saved_bytes", layer->saved_bytes);
    json_put_string(writer, "input_kept", kept[layer->input_kept]);
    json_put_u64(writer, "held_for_weight_bytes", layer->held_for_weight_bytes);
    json_put_u64(writer, "workspace_bytes", layer->workspace_bytes);
    json_put_u64(writer, "backward_workspace_bytes", layer->backward_workspace_bytes);
    json_close(writer);
}

void estimate_write(const struct estimate *estimate, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.estimate");
    json_put_string(&writer, "model", estimate->model.name);
    json_put_string(&writer, "device", estimate->device.name);
    json_put_string(&writer, "like", estimate->request.like ? estimate->request.like->name : "");
    json_put_u64(&writer, "parameters", transformer_parameters(&estimate->model));
    if (estimate->model.predicted > 0)
        json_put_u64(&writer, "file_parameters", transformer_file_parameters(&estimate->model));
    json_begin_array(&writer, "layers", JSON_LINES);
    for (int i = 0; i < LAYER_PARTS; i++)
        if (estimate->counts[i] > 0)
            write_part(&writer, estimate, i);
    json_close(&writer);
    json_put_u64(&writer, "reduce_ns", whole(estimate->reduce_ns));
    json_put_u64(&writer, "update_ns", whole(estimate->update_ns));
    json_close(&writer);
}
