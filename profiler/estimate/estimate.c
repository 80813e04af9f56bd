#include "profiler/estimate/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "profiler/estimate/framework.h"
#include "profiler/estimate/layer_costs.h"
#include "profiler/estimate/layer_kernels.h"

const char *const estimate_attention_words[] = { "fused", "flash", "plain", "recomputed", NULL };
const char *const estimate_overlap_words[] = { "nothing", "backward", "all", NULL };
const char *const estimate_shard_words[] = { "none", "optimizer", "gradients", "weights", NULL };
const char *const estimate_dispatch_words[] = { "each", "once", "narrow", NULL };
const char *const estimate_loss_words[] = { "inplace", "plain", "fused", "kernel", "compiled", NULL };
const char *const estimate_recompute_words[] = { "norms", "activations", "latent", NULL };
const char *const estimate_narrow_words[] = { "experts", "activations", "attention", NULL };

static bool parse_words(const char *text, const char *const words[], const char *all, unsigned *flags,
                        struct error *error)
{
    *flags = 0;
    for (const char *word = text; *word;) {
        const size_t length = strcspn(word, ",");
        size_t i = 0;
        while (words[i] && (strncmp(word, words[i], length) != 0 || words[i][length]))
            i++;
        if (!words[i])
            return error_set(error, "\"%.*s\" is none of %s", length < 60 ? (int)length : 60, word, all);
        *flags |= 1u << i;
        word += length + (word[length] == ',');
    }
    return true;
}

bool estimate_recompute_parse(const char *text, unsigned *tensors, struct error *error)
{
    return parse_words(text, estimate_recompute_words, ESTIMATE_RECOMPUTE_WORDS, tensors, error);
}

bool estimate_narrow_parse(const char *text, unsigned *narrow, struct error *error)
{
    return parse_words(strcmp(text, "none") == 0 ? "" : text, estimate_narrow_words, ESTIMATE_NARROW_WORDS ", or none",
                       narrow, error);
}

struct estimate_request estimate_usual(void)
{
    return (struct estimate_request){ .tensor = 1,
                                      .context = 1,
                                      .expert = 1,
                                      .data = 1,
                                      .inner_ranks = 1,
                                      .micro_batch = 1,
                                      .dtype = "bf16",
                                      .attention = ATTENTION_FUSED,
                                      .overlap = OVERLAP_BACKWARD };
}

struct estimate_request estimate_unsaid(void)
{
    struct estimate_request request = estimate_usual();
    request.like = &frameworks[0];
    return request;
}

double phase_estimate_ns(const struct phase_estimate *phase)
{
    return phase->products_ns + phase->attention_ns + phase->passes_ns + phase->communication_ns + phase->waiting_ns;
}

// --- what can be --------------------------------------------------------------

static bool refuse_division(const char *degree, uint64_t divisor, const char *what, uint64_t size, struct error *error)
{
    return error_set(error, "the %s degree of %llu does not divide %s (%llu)", degree, (unsigned long long)divisor,
                     what, (unsigned long long)size);
}

static bool check_degrees(const struct transformer *model, const struct estimate_request *request, struct error *error)
{
    const uint64_t tensor = request->tensor, expert = request->expert;
    if (model->heads % tensor != 0)
        return refuse_division("tensor", tensor, "the heads", model->heads, error);
    if (model->kv_heads % tensor != 0 && tensor % model->kv_heads != 0)
        return refuse_division("tensor", tensor, "the heads of keys and values, nor they it", model->kv_heads, error);
    // A head of Mamba 1, or of a convolution, is a channel.
    const bool has_channels = model->recurrence == RECURRENCE_MAMBA || model->recurrence == RECURRENCE_CONVOLUTION;
    const uint64_t scanned = model->scan_heads * (has_channels ? model->scan_size : 1);
    if (scanned % (tensor * request->context) != 0)
        return refuse_division("tensor x context", tensor * request->context, "the heads of recurrent layers", scanned,
                               error);
    if (model->ffn % tensor != 0)
        return refuse_division("tensor", tensor, "the MLP's width", model->ffn, error);
    if (request->sequence % request->context != 0)
        return refuse_division("context", request->context, "the sequence", request->sequence, error);
    if (request->sequence_parallel && request->micro_batch * request->sequence / request->context % tensor != 0)
        return refuse_division("tensor", tensor, "the tokens that sequence parallelism splits",
                               request->micro_batch * request->sequence / request->context, error);
    if (request->within && request->context * request->data % request->within != 0)
        return refuse_division("within", request->within, "the devices with the same weights, context x data of them",
                               request->context * request->data, error);
    if (expert > 1 && model->experts == 0)
        return error_set(error, "an expert degree of %llu is for models with experts, and %s has none",
                         (unsigned long long)expert, model->name);
    if (expert > 1 && model->experts % expert != 0)
        return refuse_division("expert", expert, "the experts", model->experts, error);
    const uint64_t group = tensor * request->context;
    if (request->inner_ranks > 1 && group % expert != 0)
        return refuse_division("expert", expert, "the devices of a stage of one pipeline, tensor x context of them",
                               group, error);
    if (group * request->data % expert != 0)
        return refuse_division("expert", expert, "the devices of a stage, tensor x context x data of them",
                               group * request->data, error);
    return true;
}

static const struct rated_product *find_product(const struct rated_device *device, const char *dtype,
                                                struct error *error)
{
    const struct rated_product *found = rated_device_product(device, dtype);
    if (found)
        return found;
    char known[160] = "";
    for (size_t i = 0; i < device->product_count; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", device->products[i].dtype);
    return error_null(error_named(error, "%s has no products of %.40s (it has %s)", device->name, dtype, known));
}

static bool check_attention(const struct rated_device *device, enum attention_how how, struct error *error)
{
    return framework_attention(device, how) == how
        || error_named(error, "%s has no such kernel for attention (%s; it has plain and recomputed)", device->name,
                       estimate_attention_words[how]);
}

// --- layers -------------------------------------------------------------------

static void (*const makers[])(struct layer_maker *) = {
    [PART_EMBEDDING] = make_embedding, [PART_ATTENTION] = make_attention, [PART_WINDOWED] = make_attention,
    [PART_RECURRENT] = make_recurrent, [PART_MLP] = make_mlp, [PART_EXPERTS] = make_experts,
    [PART_ENCODER] = make_attention, [PART_ENCODER_MLP] = make_mlp, [PART_CROSSING] = make_crossing,
    [PART_PREDICTED] = make_predicted,
    [PART_HEAD] = make_head,
};

// The group of `alike` devices that hold the same parameters. Those of one pipeline's stage are `stride` apart.
static struct group same_parameters(const struct estimate_request *request, double alike, double stride)
{
    const double data = (double)request->data,
                 row_stride = (double)(request->tensor * request->context * request->inner_ranks);
    return request->inner_ranks > 1 ? (struct group){ alike / data, stride, data, row_stride }
                              : (struct group){ .ranks = alike, .stride = stride };
}

// The devices that together hold sharded state once (`within`), and those that hold the same share in different such
// groups (`across`).
struct sharing {
    struct group within, across;
};

static double holders(const struct estimate_request *request, double alike)
{
    const double within = (double)request->within;
    return within > 0 && within < alike ? within : alike;
}

static struct sharing sharing_of(const struct estimate_request *request, double alike, double stride)
{
    const double within = holders(request, alike), inner = request->context > 1 ? 1 : (double)request->inner_ranks;
    if (within == alike)
        return (struct sharing){ same_parameters(request, alike, stride), { .ranks = 1, .stride = 1 } };
    return (struct sharing){ { .ranks = within, .stride = stride * inner },
                             { .ranks = alike / within, .stride = stride * inner * within } };
}

// With sharded weights, each layer's weights are all-gathered while the layer before computes, before F and before B.
// Gradients are reduce-scattered behind the next B. What does not fit behind the work is waited for.
static void share_weights(const struct estimate *estimate, struct layer_estimate *layer, double number, double narrow)
{
    const struct estimate_request *request = &estimate->request;
    const double all = (double)(request->context * request->data);
    const struct group group = sharing_of(request, all, (double)request->tensor).within;
    if (request->shard != ESTIMATE_SHARD_WEIGHTS || all <= 1 || layer->parameters == 0)
        return;
    const double sent = request->like ? framework_states(&estimate->model, request).sent : number;
    const double parameters = (double)layer->parameters;
    const bool is_wide = layer == &estimate->parts[PART_EMBEDDING] || layer == &estimate->parts[PART_HEAD];
    const double gathered = request->narrow_gathers && !is_wide ? narrow : number;
    const double gather = collective_ns(&estimate->device, ALL_GATHER, parameters * gathered, group);
    const double trained = (double)(layer->parameters - layer->frozen_parameters);
    const double deal = trained > 0 ? collective_ns(&estimate->device, REDUCE_SCATTER, trained * sent, group) : 0;
    struct phase_estimate *forward = &layer->phases[ESTIMATE_F], *backward = &layer->phases[ESTIMATE_I];
    const double work = phase_estimate_ns(backward) + phase_estimate_ns(&layer->phases[ESTIMATE_W]);
    const double in_forward = fmax(0, gather - phase_estimate_ns(forward));
    const double in_backward = fmax(0, gather + deal - work);
    forward->communication_ns += in_forward;
    forward->hidden_ns += gather - in_forward;
    backward->communication_ns += in_backward;
    backward->hidden_ns += gather + deal - in_backward;
}

// Multiprocessors that send tokens while the others compute.
static double senders(const struct estimate *estimate)
{
    enum { USUAL = 20 };  // DeepEP's (Buffer.num_sms, Megatron's moe_deepep_num_sms)
    const uint32_t senders = framework_of(&estimate->request)->senders;
    return fmin(senders > 0 ? senders : USUAL, (double)estimate->device.multiprocessors);
}

// The time of F, I and W without messages: of what multiprocessors compute, and of what memory takes.
struct pair_work {
    double computes_ns, passes_ns;
};

static void add_work(const struct layer_estimate *layer, double count, struct pair_work *work)
{
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        work->computes_ns += count * (layer->phases[i].products_ns + layer->phases[i].attention_ns);
        work->passes_ns += count * layer->phases[i].passes_ns;
    }
}

// Adds what is in front of experts, in the mean over the blocks.
static void add_work_before(const struct estimate *estimate, struct pair_work *work)
{
    double blocks = 0;
    for (int i = PART_ATTENTION; i <= PART_RECURRENT; i++)
        blocks += (double)estimate->counts[i];
    for (int i = PART_ATTENTION; i <= PART_RECURRENT && !estimate->model.has_lone_layers; i++)
        add_work(&estimate->parts[i], (double)estimate->counts[i] / blocks, work);
}

// A backward that is in no pair hides messages behind its own W (Megatron-Core's model_chunk_schedule_plan.py, with
// delay_wgrad_compute). Gradients come back from experts behind the W of their products. Those of the next block are
// sent behind the W of attention.
static double hidden_alone_ns(const struct estimate *estimate, enum layer_part part, const struct layer_estimate *layer)
{
    const double half = layer->phases[ESTIMATE_I].dispatch_ns / 2, own = layer->phases[ESTIMATE_W].products_ns;
    double before = 0, blocks = 0;
    if (part != PART_EXPERTS || estimate->model.has_lone_layers)
        return fmin(2 * half, own);
    for (int i = PART_ATTENTION; i <= PART_RECURRENT; i++) {
        before += (double)estimate->counts[i] * estimate->parts[i].phases[ESTIMATE_W].products_ns;
        blocks += (double)estimate->counts[i];
    }
    return fmin(half, own) + fmin(half, before / blocks);
}

// A forward of one micro-batch runs together with a backward of another, block by block. While one of them sends
// tokens, the other computes, on the multiprocessors that do not send (DeepSeek-AI, arXiv 2412.19437, figure 4):
//
//     compute   F's attention | B's MLP, W | F's MLP | B's attention, W         C without messages
//     messages  B's dispatch  | F's dispatch | B's combine | F's combine        M in all
//
// Together they take max(M, C + M x sending / all), where only the part of C counts as slowed that multiprocessors
// bound. What that is more than C is not hidden.
static void hide_dispatch(const struct estimate *estimate, enum layer_part part, struct layer_estimate *layer)
{
    const double sent = layer->phases[ESTIMATE_F].dispatch_ns + layer->phases[ESTIMATE_I].dispatch_ns;
    if (!estimate->request.hidden_experts || sent <= 0)
        return;
    struct pair_work work = { 0 };
    add_work(layer, 1, &work);
    if (part == PART_EXPERTS)
        add_work_before(estimate, &work);
    const double all = work.computes_ns + work.passes_ns;
    const double share = senders(estimate) / (double)estimate->device.multiprocessors;
    const double slowed = sent * share * work.computes_ns / all;
    const double hidden = fmax(0, sent - fmax(slowed, sent - all)) / sent;
    for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++) {
        struct phase_estimate *phase = &layer->phases[i];
        phase->paired_ns = hidden * phase->dispatch_ns;
        phase->communication_ns -= phase->paired_ns;
        phase->hidden_ns += phase->paired_ns;
    }
    layer->alone_ns = hidden_alone_ns(estimate, part, layer) * (1 - share);
}

// A device waits if it finishes its kernels before the host has launched the next ones. A launch that is waited for
// takes twice as long, since the way to the device and back takes about as long as issuing the launch. (Together they
// take 20 us for an operation of PyTorch, according to NVIDIA's guide to Nsight Systems.)
static void wait_for_host(const struct estimate *estimate, struct layer_estimate *layer)
{
    enum { THERE_AND_BACK = 2 };
    for (int i = 0; i < ESTIMATE_PHASES && !estimate->request.graphs; i++) {
        struct phase_estimate *phase = &layer->phases[i];
        const double launching = phase->launches * (double)estimate->device.host_ns;
        phase->waiting_ns = estimate->request.blocking ? THERE_AND_BACK * launching
                                                       : fmax(0, launching - phase_estimate_ns(phase));
    }
}

enum layer_part estimate_attention_part(const struct transformer *model, uint64_t block)
{
    if (transformer_is(model, block, LAYER_WITHOUT_MIXER))
        return PART_NONE;
    if (transformer_is(model, block, LAYER_RECURRENT))
        return PART_RECURRENT;
    if (transformer_is_encoding(model, block))
        return PART_ENCODER;
    return transformer_is_local(model, block) ? PART_WINDOWED : PART_ATTENTION;
}

enum layer_part estimate_rest_part(const struct transformer *model, uint64_t block)
{
    if (transformer_is(model, block, LAYER_WITHOUT_MLP))
        return PART_NONE;
    if (transformer_is_encoding(model, block))
        return PART_ENCODER_MLP;
    return transformer_has_experts(model, block) ? PART_EXPERTS : PART_MLP;
}

// The number of layers of all blocks before this one. What lies between encoder and decoder belongs to the encoder's
// last block.
static size_t layers_before(const struct transformer *model, uint64_t block)
{
    size_t layers = 2 * (size_t)block + (model->encoder_layers > 0 && block >= model->encoder_layers);
    for (uint64_t i = 0; i < block && model->has_lone_layers; i++)
        layers -= transformer_is(model, i, LAYER_WITHOUT_MIXER | LAYER_WITHOUT_MLP);
    return layers;
}

size_t estimate_layers(const struct transformer *model)
{
    return layers_before(model, model->layers) + (size_t)model->predicted + 2;
}

// The last block that begins at the layer or before it.
uint64_t estimate_block(const struct transformer *model, size_t i)
{
    uint64_t low = 0, high = model->layers;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (1 + layers_before(model, middle) <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

enum layer_part estimate_part(const struct transformer *model, size_t i)
{
    if (i == 0)
        return PART_EMBEDDING;
    const size_t end = 1 + layers_before(model, model->layers);
    if (i == end + model->predicted)
        return PART_HEAD;
    if (i >= end)
        return PART_PREDICTED;
    if (model->encoder_layers > 0 && i == layers_before(model, model->encoder_layers))
        return PART_CROSSING;
    const uint64_t block = estimate_block(model, i);
    const enum layer_part first = estimate_attention_part(model, block);
    return first != PART_NONE && i == 1 + layers_before(model, block) ? first : estimate_rest_part(model, block);
}

bool estimate_begins_block(const struct transformer *model, enum layer_part part)
{
    if (part == PART_ATTENTION || part == PART_WINDOWED || part == PART_ENCODER || part == PART_RECURRENT)
        return true;
    return model->has_lone_layers && (part == PART_MLP || part == PART_EXPERTS);
}

uint64_t estimate_output_bytes(const struct estimate *estimate)
{
    uint64_t most = 0;
    for (int i = PART_ATTENTION; i < PART_PREDICTED; i++)
        most = max_u64(most, estimate->parts[i].output_bytes);
    return most;
}

static const char *recurrent_name(const struct transformer *model)
{
    if (model->recurrence == RECURRENCE_CONVOLUTION)
        return "conv";
    return model->recurrence == RECURRENCE_MAMBA || model->recurrence == RECURRENCE_MAMBA2 ? "mamba" : "linear";
}

const char *estimate_part_name(const struct transformer *model, enum layer_part part)
{
    static const char *const names[LAYER_PARTS] = {
        [PART_EMBEDDING] = "embedding", [PART_ATTENTION] = "attention", [PART_WINDOWED] = "windowed",
        [PART_ENCODER] = "encoder", [PART_MLP] = "mlp", [PART_ENCODER_MLP] = "encodermlp", [PART_EXPERTS] = "experts",
        [PART_CROSSING] = "between", [PART_PREDICTED] = "mtp", [PART_HEAD] = "head",
    };
    return part == PART_RECURRENT ? recurrent_name(model) : names[part];
}

const char *estimate_part_kind(const struct transformer *model, enum layer_part part)
{
    if (part == PART_WINDOWED || part == PART_ENCODER)
        part = PART_ATTENTION;
    return estimate_part_name(model, part == PART_ENCODER_MLP ? PART_MLP : part);
}

static void count_parts(struct estimate *estimate)
{
    uint64_t counts[LAYER_SLOTS] = { [PART_EMBEDDING] = 1, [PART_PREDICTED] = estimate->model.predicted,
                                         [PART_CROSSING] = estimate->model.encoder_layers > 0, [PART_HEAD] = 1 };
    for (uint64_t i = 0; i < estimate->model.layers; i++) {
        counts[estimate_attention_part(&estimate->model, i)]++;
        counts[estimate_rest_part(&estimate->model, i)]++;
    }
    memcpy(estimate->counts, counts, sizeof estimate->counts);
}

// A decoder's layers pass on the encoder's output beside their own. It is kept once, with what lies between encoder and
// decoder: what others keep of it is no more than that.
static void pass_on(struct layer_maker *maker)
{
    struct layer_estimate *layer = maker->layer;
    const uint64_t passed = layer_tensor_bytes(maker->local_tokens * (double)maker->model->hidden * maker->number);
    if (maker->model->encoder_layers == 0
        || (maker->part != PART_ATTENTION && maker->part != PART_MLP && maker->part != PART_CROSSING))
        return;
    layer->output_bytes += passed;
    layer->saved_bytes -= maker->part == PART_CROSSING ? 0 : passed;
}

// --- between iterations -------------------------------------------------------

// The reduction time of parameters that `alike` devices hold in common. Gradients are reduced, and what is sharded is
// gathered. With sharded weights, each group has already reduce-scattered its gradients; they are reduced across the
// groups here.
static double reduced_ns(struct estimate *estimate, double parameters, double alike, double stride, double gradient)
{
    const struct rated_device *device = &estimate->device;
    const struct estimate_request *request = &estimate->request;
    const struct sharing sharing = sharing_of(request, alike, stride);
    const double number = profile_dtype_bytes(request->dtype), share = parameters / holders(request, alike);
    double ns = 0;
    if (parameters <= 0 || alike <= 1)
        return 0;
    if (request->shard == ESTIMATE_SHARD_NONE)
        return collective_ns(device, ALL_REDUCE, gradient * parameters, same_parameters(request, alike, stride));
    if (request->shard != ESTIMATE_SHARD_WEIGHTS) {
        const double gather = collective_ns(device, ALL_GATHER, number * parameters, sharing.within);
        estimate->gather_ns += gather;
        ns = collective_ns(device, REDUCE_SCATTER, gradient * parameters, sharing.within) + gather;
    }
    return ns + collective_ns(device, ALL_REDUCE, gradient * share, sharing.across);
}

// The optimizer reads and writes two kinds of weights and two moments.
static void add_update(struct estimate *estimate, double number)
{
    enum { UPDATED = 4 * 7 };
    const struct estimate_request *request = &estimate->request;
    const struct framework_states states = framework_states(&estimate->model, request);
    const double gradient = request->like ? states.sent : 4;
    double plain = 0, experts = 0;
    for (int i = 0; i < LAYER_PARTS; i++) {
        const struct layer_estimate *layer = &estimate->parts[i];
        const double trained_experts = (double)(layer->expert_parameters - layer->frozen_expert_parameters);
        plain += (double)estimate->counts[i]
            * ((double)(layer->parameters - layer->frozen_parameters) - trained_experts);
        experts += (double)estimate->counts[i] * trained_experts;
    }
    const double all = (double)(request->context * request->data), tensor = (double)request->tensor;
    const double expert = (double)request->expert, alike = fmax(1, all * tensor / expert);
    const bool whole = request->shard == ESTIMATE_SHARD_NONE;
    estimate->reduce_ns = reduced_ns(estimate, plain, all, tensor, gradient)
        + reduced_ns(estimate, experts, alike, expert, gradient);
    const double numbers = whole ? plain + experts
                                 : plain / holders(request, all) + experts / holders(request, alike);
    estimate->update_ns = pass_ns(&estimate->device, (UPDATED + number) * numbers);
}

// --- fine-tuning ----------------------------------------------------------------

static unsigned tuned_part(enum layer_part part)
{
    static const unsigned parts[LAYER_PARTS] = {
        [PART_EMBEDDING] = TUNED_EMBEDDING, [PART_ATTENTION] = TUNED_ATTENTION, [PART_WINDOWED] = TUNED_ATTENTION,
        [PART_RECURRENT] = TUNED_ATTENTION, [PART_MLP] = TUNED_MLP, [PART_EXPERTS] = TUNED_EXPERTS,
        [PART_HEAD] = TUNED_HEAD,
    };
    return parts[part];
}

// Whether what is named is there.
static bool has_tuned_parts(const struct estimate *estimate, struct error *error)
{
    const struct fine_tuning *tuning = &estimate->request.tuning;
    unsigned there = 0;
    for (int i = 0; i < LAYER_PARTS; i++)
        there |= estimate->counts[i] > 0 ? tuned_part((enum layer_part)i) : 0;
    if (tuning->lora_rank == 0 && tuning->frozen & ~there)
        return error_set(error, "%s has no %s that could be frozen: leave that out", estimate->model.name,
                         fine_tuning_part(tuning->frozen & ~there));
    there |= estimate->model.shared_ffn > 0 ? TUNED_MLP : 0;
    return tuning->lora_rank == 0 || tuning->lora & there
        || error_set(error, "%s has no %s for LoRA, so nothing would be trained", estimate->model.name,
                     fine_tuning_part(tuning->lora));
}

static bool check_tuning(const struct estimate *estimate, struct error *error)
{
    const struct estimate_request *request = &estimate->request;
    const struct fine_tuning *tuning = &request->tuning;
    for (size_t i = 0; i < tuning->length_count; i++)
        if (tuning->lengths[i].tokens > request->sequence)
            return error_set(error, "sequences of %u tokens do not fit into packed ones of %llu",
                             tuning->lengths[i].tokens, (unsigned long long)request->sequence);
    const bool is_one = attention_is_one_kernel(request->attention);
    if (tuning->length_count && (!is_one || estimate->model.recurrence != RECURRENCE_NONE || request->context > 1))
        return error_set(error, "packed sequences are estimated for attention in one kernel, without recurrent layers"
                         " and context parallelism");
    if (!tuning->frozen)
        return true;
    if (estimate->model.recurrence != RECURRENCE_NONE || estimate->model.patch_numbers || estimate->model.index_chosen
        || estimate->model.encoder_layers > 0)
        return error_set(error, "no estimate is made for frozen parts of %s", estimate->model.name);
    if (estimate->model.predicted > 0)
        return error_set(error, "no estimate is made for multi-token prediction with frozen parts: leave its layers"
                         " out");
    if (tuning->lora_rank > 0 && request->products && strcmp(request->products, request->dtype) != 0)
        return error_set(error, "no estimate is made for LoRA beside products of %s", request->products);
    if (estimate->model.is_tied && (tuning->frozen & (TUNED_EMBEDDING | TUNED_HEAD)) != 0
        && (tuning->frozen & (TUNED_EMBEDDING | TUNED_HEAD)) != (TUNED_EMBEDDING | TUNED_HEAD))
        return error_set(error, "%s reads the embedding's table in its head: both are frozen, or none",
                         estimate->model.name);
    return has_tuned_parts(estimate, error);
}

// Whether a block's gradient goes further back, or it has parameters that are trained.
static bool blocks_go_back(const struct estimate *estimate)
{
    const struct fine_tuning *tuning = &estimate->request.tuning;
    bool is_trained = !(tuning->frozen & TUNED_EMBEDDING) || tuning->lora_rank > 0;
    for (int i = PART_ATTENTION; i < PART_HEAD; i++)
        is_trained |= estimate->counts[i] > 0 && !(tuning->frozen & tuned_part((enum layer_part)i));
    return is_trained;
}

static void tune(const struct estimate *estimate, enum layer_part part, struct layer_maker *maker)
{
    const struct fine_tuning *tuning = &estimate->request.tuning;
    const bool is_block = part > PART_EMBEDDING && part < PART_HEAD;
    maker->is_trained = !(tuning->frozen & tuned_part(part));
    maker->goes_back = blocks_go_back(estimate);
    maker->lora_rank = is_block && tuning->lora & tuned_part(part) ? (double)tuning->lora_rank : 0;
}

// What a frozen layer does not do: it trains LoRA's parameters alone. With nothing to train in front of them, blocks
// have no backward.
static void leave_frozen(struct layer_maker *maker, enum layer_part part)
{
    struct layer_estimate *layer = maker->layer;
    layer->frozen_parameters = maker->is_trained ? 0 : layer->parameters;
    layer->frozen_expert_parameters = maker->is_trained ? 0 : layer->expert_parameters;
    layer->parameters += layer->adapter_parameters;
    if (maker->is_trained || part == PART_HEAD)
        return;
    if (layer->adapter_parameters == 0)
        layer->held_for_weight_bytes = 0;
    if (part != PART_EMBEDDING && maker->goes_back)
        return;
    layer->phases[ESTIMATE_I] = layer->phases[ESTIMATE_W] = (struct phase_estimate){ 0 };
    layer->saved_bytes = layer->held_for_weight_bytes = layer->backward_workspace_bytes = 0;
    layer->frozen_flops = 2 * layer->flops;
    layer->input_kept = INPUT_KEPT_NONE;
}

void estimate_leave_out(const struct estimate_request *request, struct transformer *model)
{
    if (request->without_mtp)
        model->predicted = 0;
}

bool estimate_model(const struct transformer *model, const struct rated_device *device,
                    const struct estimate_request *request, struct estimate *estimate, struct error *error)
{
    *estimate = (struct estimate){ .model = *model, .device = *device, .request = *request };
    struct estimate_request *asked = &estimate->request;
    estimate_leave_out(asked, &estimate->model);
    if (asked->sequence == 0)
        asked->sequence = model->longest;
    framework_fill(model, device, asked);
    if (!transformer_takes(model, asked->sequence, error) || !check_degrees(model, asked, error))
        return false;
    if (asked->recompute_tensors & RECOMPUTE_LATENT && !model->is_latent)
        return error_set(error, "latent is for attention that is, and that of %s is not", model->name);
    const struct rated_product *wide = find_product(device, asked->dtype, error);
    const struct rated_product *products = asked->products ? find_product(device, asked->products, error) : wide;
    if (!wide || !products || !check_attention(device, asked->attention, error))
        return false;
    const double number = profile_dtype_bytes(asked->dtype);
    if (number == 0)
        return error_set(error, "%.40s is no type of activations (%s)", asked->dtype, PROFILE_DTYPES);
    const double tokens = (double)(asked->micro_batch * asked->sequence) / (double)asked->context;
    struct layer_maker maker = {
        .model = &estimate->model, .device = &estimate->device, .request = asked, .products = products,
        .head_products = wide, .number = number, .tensor = (double)asked->tensor, .tokens = tokens,
        .local_tokens = asked->sequence_parallel ? tokens / (double)asked->tensor : tokens,
        .product_number = fmin(number, strcmp(products->dtype, "fp4") == 0 ? 0.5625
                                                                           : profile_dtype_bytes(products->dtype)),
    };
    count_parts(estimate);
    if (!check_tuning(estimate, error))
        return false;
    for (int i = 0; i < LAYER_PARTS; i++) {
        maker.layer = &estimate->parts[i];
        if (estimate->counts[i] == 0)
            continue;
        maker.part = (enum layer_part)i;
        maker.sees_all = model->is_bidirectional || i == PART_ENCODER;
        tune(estimate, (enum layer_part)i, &maker);
        maker.window = (double)(i == PART_WINDOWED ? model->local_window : model->window);
        makers[i](&maker);
        pass_on(&maker);
        leave_frozen(&maker, (enum layer_part)i);
        hide_dispatch(estimate, (enum layer_part)i, maker.layer);
        share_weights(estimate, maker.layer, number, maker.product_number);
        wait_for_host(estimate, maker.layer);
    }
    add_update(estimate, number);
    return true;
}
