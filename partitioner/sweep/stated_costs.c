// The costs of a stage of a stated layout: its time, and the bytes that its framework keeps.
#include <math.h>

#include "partitioner/sweep/stated.h"
#include "profiler/estimate/framework.h"
#include "profiler/estimate/kernel_times.h"

#define MIB ((double)(1 << 20))

static bool is_by_operation(const struct judgement *judgement)
{
    return judgement->request.recompute.how == STATED_SELECTIVE
        && framework_of(&judgement->request.how)->selective == SELECTIVE_OPERATIONS;
}

// --- time --------------------------------------------------------------------------------------------------------

// The time to add a micro-batch's gradients to sums of another type, if the framework does so. The gradients are read
// and zeroed; the sums are read and written.
static double summed_ns(const struct judgement *judgement, const struct layer_estimate *layer)
{
    const struct framework_states states = framework_states(&judgement->estimate.model, &judgement->estimate.request);
    const double bytes = states.sums ? 2 * states.gradients + 2 * states.sums : 0;
    const double trained = (double)(layer->parameters - layer->frozen_parameters);
    return bytes > 0 ? pass_ns(judgement->request.device, bytes * trained) : 0;
}

// The share of a block's products that torchtitan's policy recomputes. It recomputes every other product in the order
// of the forward. The products are queries, keys, values, output, gate, up and down; recomputed are keys, output and
// up. The passes between them are recomputed as well.
static double operations_share(const struct transformer *model, enum layer_part part)
{
    const double hidden = (double)model->hidden, size = (double)model->head_size;
    const double queries = hidden * (double)model->heads * size, keys = hidden * (double)model->kv_heads * size;
    if (part == PART_ATTENTION || part == PART_WINDOWED || part == PART_ENCODER || part == PART_RECURRENT)
        return (keys + queries) / (2 * queries + 2 * keys);
    return model->is_gated ? 1.0 / 3 : 0.5;
}

// The part of a layer's forward that the framework recomputes in every layer that is not recomputed as a whole.
static double partly_again_ns(const struct judgement *judgement, enum layer_part part)
{
    const struct stated_recompute *recompute = &judgement->request.recompute;
    const struct phase_estimate *forward = &judgement->estimate.parts[part].phases[ESTIMATE_F];
    if (part == PART_EMBEDDING || part == PART_HEAD)
        return 0;
    if (is_by_operation(judgement))
        return operations_share(&judgement->estimate.model, part) * forward->products_ns + forward->passes_ns;
    // If attention scores are kept, "selective" is another kind of attention, which recomputes them in its backward.
    const bool is_attention = recompute->modules & MODULE_ATTENTION || recompute->how == STATED_SELECTIVE;
    return is_attention && judgement->estimate.request.attention != ATTENTION_RECOMPUTED ? forward->attention_ns : 0;
}

void stated_work(const struct judgement *judgement, const struct stated_stage *stage, struct stated_time *time)
{
    for (int part = 0; part < LAYER_PARTS; part++) {
        const struct layer_estimate *layer = &judgement->estimate.parts[part];
        const double count = stage->counts[part], again = stage->again[part];
        for (int i = 0; i < ESTIMATE_PHASES && count > 0; i++) {
            const struct phase_estimate *phase = &layer->phases[i];
            time->products_ns += count * phase->products_ns;
            time->attention_ns += count * phase->attention_ns;
            time->passes_ns += count * phase->passes_ns;
            time->messages_ns +=
                count * (phase->communication_ns + (judgement->has_pairs ? 0 : phase->paired_ns));
            time->host_ns += count * phase->waiting_ns;
        }
        if (count <= 0)
            continue;
        time->passes_ns += count * summed_ns(judgement, layer);
        time->again_ns += again * phase_estimate_ns(&layer->phases[ESTIMATE_F])
            + (count - again) * partly_again_ns(judgement, (enum layer_part)part);
    }
}

uint64_t stated_paired_ns(const struct judgement *judgement, const struct stated_stage *stage,
                          enum estimate_phase phase)
{
    double ns = 0;
    for (int part = 0; part < LAYER_PARTS; part++)
        ns += stage->counts[part] * judgement->estimate.parts[part].phases[phase].paired_ns;
    return (uint64_t)ns;
}

static void set_times(const struct judgement *judgement, const struct stated_stage *stage, struct cost_row *row)
{
    double phases[ESTIMATE_PHASES] = { 0 }, alone = 0;
    for (int part = 0; part < LAYER_PARTS; part++) {
        const struct layer_estimate *layer = &judgement->estimate.parts[part];
        for (int i = 0; i < ESTIMATE_PHASES && stage->counts[part] > 0; i++)
            phases[i] += stage->counts[part] * (phase_estimate_ns(&layer->phases[i]) + layer->phases[i].paired_ns);
        if (stage->counts[part] > 0)
            phases[ESTIMATE_W] += stage->counts[part] * summed_ns(judgement, layer);
        alone += judgement->has_pairs ? stage->counts[part] * layer->alone_ns : 0;
    }
    struct stated_time work = { 0 };
    stated_work(judgement, stage, &work);
    row->forward_ns = (uint64_t)llround(phases[ESTIMATE_F]);
    row->backward_input_ns = (uint64_t)llround(phases[ESTIMATE_I]);
    row->backward_weight_ns = (uint64_t)llround(phases[ESTIMATE_W]);
    row->backward_ns = row->backward_input_ns + row->backward_weight_ns - (uint64_t)alone;
    row->recompute_ns = (uint64_t)llround(work.again_ns);
}

// --- weights, gradients, states ---------------------------------------------------------------------------------

static double holders(double within, double alike)
{
    return fmax(1, within > 0 && within < alike ? within : alike);
}

// The parameters of a layer that a device holds if they are whole, and if they are sharded.
struct held {
    double whole, shared;
};

static struct held held_of(const struct judgement *judgement, uint64_t parameters, uint64_t expert_parameters)
{
    const struct estimate_request *how = &judgement->estimate.request;
    const double expert_tensor = judgement->request.expert_tensor > 1 ? judgement->request.expert_tensor : 1;
    const double all = (double)(how->context * how->data), within = (double)how->within;
    const double alike = floor(all * (double)how->tensor / ((double)how->expert * expert_tensor));
    const double experts = (double)expert_parameters / expert_tensor;
    const double plain = (double)(parameters - expert_parameters);
    return (struct held){ plain + experts, plain / holders(within, all) + experts / holders(within, alike) };
}

static void add_states(const struct judgement *judgement, enum layer_part part, double count,
                       struct stated_bytes *bytes)
{
    const struct estimate_request *how = &judgement->estimate.request;
    const struct framework_states states = framework_states(&judgement->estimate.model, how);
    const struct layer_estimate *layer = &judgement->estimate.parts[part];
    const struct held held = held_of(judgement, layer->parameters, layer->expert_parameters);
    const struct held trained = held_of(judgement, layer->parameters - layer->frozen_parameters,
                                        layer->expert_parameters - layer->frozen_expert_parameters);
    const bool shares = how->shard != ESTIMATE_SHARD_NONE;
    const double weights = how->shard == ESTIMATE_SHARD_WEIGHTS ? held.shared : held.whole;
    const double gradients = how->shard >= ESTIMATE_SHARD_GRADIENTS ? trained.shared : trained.whole;
    bytes->weights += count * states.weights * weights;
    bytes->gradients += count * (states.gradients + states.sums) * gradients;
    bytes->optimizer += count * (shares ? (states.optimizer + states.step) * trained.shared
                                        : states.optimizer * trained.whole);
}

// --- what waits for its backward ---------------------------------------------------------------------------------

// What torchtitan's policy keeps of a block: its input, the result of attention, and every other product. These are
// queries, values, one of the two ways up, and the way down. A compiler sees that nothing reads the last one. Half of
// the sum belongs to each of a block's two layers.
static double kept_by_operation(const struct judgement *judgement)
{
    const struct transformer *model = &judgement->estimate.model;
    const struct estimate_request *how = &judgement->estimate.request;
    const double hidden = (double)model->hidden, number = profile_dtype_bytes(how->dtype);
    const double values = (double)(model->kv_heads * model->head_size);
    const double ffn = (double)(model->experts ? model->chosen * model->expert_ffn + model->shared_ffn : model->ffn);
    const double numbers = (how->fused_passes ? 3 : 4) * hidden + values + ffn;
    const double tokens = (double)(how->micro_batch * how->sequence) / (double)(how->context * how->tensor);
    return tokens * (number * numbers + 4 * (double)model->heads) / 2;
}

// Includes the layer's input, which is as large as its output. For a block that is recomputed this is the block's
// input alone.
static double kept_bytes(const struct judgement *judgement, enum layer_part part, double count, double again)
{
    const struct layer_estimate *layer = &judgement->estimate.parts[part];
    const bool is_by_module = judgement->request.recompute.how == STATED_MODULES;
    if (part == PART_HEAD)
        return 0;
    if (part == PART_EMBEDDING)
        return count * (double)layer->saved_bytes;
    if (is_by_operation(judgement))
        return count * kept_by_operation(judgement);
    const bool is_first = estimate_begins_block(&judgement->estimate.model, part);
    return (count - again) * (double)(layer->saved_bytes + layer->output_bytes)
        + (is_first || is_by_module ? again * (double)layer->output_bytes : 0);
}

// The workspace of a backward: gradients within a layer, and what is recomputed of a block.
static double backward_bytes(const struct judgement *judgement, const struct stated_stage *stage)
{
    const struct layer_estimate *parts = judgement->estimate.parts;
    double most = 0, attention = 0, rest = 0;
    for (int i = PART_ATTENTION; i < PART_HEAD; i++) {
        if (judgement->estimate.counts[i] > 0)
            most = fmax(most, (double)(parts[i].held_for_weight_bytes + parts[i].backward_workspace_bytes));
        double *most_again = i <= PART_RECURRENT ? &attention : &rest;
        if (stage->again[i] > 0)
            *most_again = fmax(*most_again, (double)parts[i].saved_bytes);
    }
    return most + attention + rest;
}

static double largest_layer(const struct judgement *judgement)
{
    double most = 0;
    for (int i = 0; i < LAYER_PARTS; i++)
        most = fmax(most, (double)judgement->estimate.parts[i].parameters);
    return most;
}

// The workspaces that PyTorch's cuBLAS and Transformer Engine hold permanently. From Hopper on, whose devices have
// fp8 products, they take 32 MiB each; before it, 8 and 4 MiB. (CublasHandlePool.cpp;
// transformer_engine/pytorch/module/base.py) Sharded weights of the largest layer are gathered into a buffer, and
// copied to where they are read (fsdp/_fully_shard/_fsdp_collectives.py).
double stated_workspace(const struct judgement *judgement)
{
    const struct estimate_request *how = &judgement->estimate.request;
    const double libraries = rated_device_product(judgement->request.device, "fp8") ? 64 * MIB : 12 * MIB;
    return libraries + (how->shard == ESTIMATE_SHARD_WEIGHTS
                            ? 2 * profile_dtype_bytes(how->dtype) * largest_layer(judgement) : 0);
}

void stated_costs(const struct judgement *judgement, const struct stated_stage *stage, bool is_last,
                  struct cost_row *row, struct stated_bytes *bytes)
{
    const struct layer_estimate *parts = judgement->estimate.parts;
    const double blocks = stated_blocks(&judgement->estimate.model, stage);
    const double here = fmax(0, 1 - (double)judgement->request.offloaded / fmax(1, blocks));
    double kept = 0, held = 0, transient = backward_bytes(judgement, stage);
    set_times(judgement, stage, row);
    for (int i = 0; i < LAYER_PARTS; i++) {
        if (stage->counts[i] <= 0)
            continue;
        add_states(judgement, (enum layer_part)i, stage->counts[i], bytes);
        kept += here * kept_bytes(judgement, (enum layer_part)i, stage->counts[i], stage->again[i]);
        held += stage->counts[i] * (double)parts[i].held_for_weight_bytes;
    }
    if (framework_of(&judgement->request.how)->keeps_outputs)
        kept += (double)estimate_output_bytes(&judgement->estimate);
    if (is_last)
        transient = fmax(transient, (double)(parts[PART_HEAD].saved_bytes + parts[PART_HEAD].backward_workspace_bytes));
    // A head that reads the embedding's table has a copy of it on a rank without the table. Layers that predict tokens
    // further on have one, too.
    const bool reads_table = stage->counts[PART_PREDICTED] > 0 || stage->counts[PART_CROSSING] > 0
        || (is_last && judgement->estimate.model.is_tied);
    if (reads_table && !stage->has_table && stage->counts[PART_EMBEDDING] <= 0)
        add_states(judgement, PART_EMBEDDING, 1, bytes);
    row->fixed_bytes = (uint64_t)llround(bytes->weights + bytes->gradients + bytes->optimizer);
    row->kept_forward_bytes = (uint64_t)llround(kept);
    row->kept_weight_bytes = (uint64_t)llround(fmin(held, kept));
    row->transient_bytes = (uint64_t)llround(transient);
}
