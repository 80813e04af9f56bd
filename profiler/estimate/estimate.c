#include "profiler/estimate/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "profiler/estimate/layer_costs.h"

const char *const estimate_attention_words[] = { "fused", "flash", "plain", "again", NULL };
const char *const estimate_overlap_words[] = { "nothing", "backward", "all", NULL };
const char *const estimate_shard_words[] = { "none", "optimizer", "gradients", "weights", NULL };
const char *const estimate_dispatch_words[] = { "each", "once", NULL };
const char *const estimate_loss_words[] = { "inplace", "plain", "fused", NULL };
const char *const estimate_again_words[] = { "norms", "activations", "latent", NULL };

bool estimate_again_parse(const char *text, unsigned *again, struct error *error)
{
    *again = 0;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, ",");
        size_t i = 0;
        while (estimate_again_words[i]
               && (strncmp(at, estimate_again_words[i], length) != 0 || estimate_again_words[i][length]))
            i++;
        if (!estimate_again_words[i])
            return error_set(error, "\"%.*s\" is none of norms, activations, latent",
                             length < 60 ? (int)length : 60, at);
        *again |= 1u << i;
        at += length + (at[length] == ',');
    }
    return true;
}

struct estimate_request estimate_usual(void)
{
    return (struct estimate_request){ .tensor = 1, .context = 1, .expert = 1, .data = 1, .apart = 1, .micro_batch = 1,
                                      .dtype = "bf16", .attention = ATTENTION_FUSED, .overlap = OVERLAP_BACKWARD };
}

double phase_estimate_ns(const struct phase_estimate *phase)
{
    return phase->products_ns + phase->attention_ns + phase->passes_ns + phase->communication_ns + phase->waiting_ns;
}

// --- what can be --------------------------------------------------------------

static bool refuse_division(const char *degree, uint64_t by, const char *what, uint64_t size, struct error *error)
{
    return error_set(error, "the %s degree of %llu does not divide %s (%llu)", degree, (unsigned long long)by, what,
                     (unsigned long long)size);
}

static bool check_degrees(const struct transformer *model, const struct estimate_request *request, struct error *error)
{
    const uint64_t tensor = request->tensor, expert = request->expert;
    if (model->heads % tensor != 0)
        return refuse_division("tensor", tensor, "the heads", model->heads, error);
    if (model->kv_heads % tensor != 0 && tensor % model->kv_heads != 0)
        return refuse_division("tensor", tensor, "the heads of keys and values, nor they it", model->kv_heads, error);
    if (model->ffn % tensor != 0)
        return refuse_division("tensor", tensor, "the MLP's width", model->ffn, error);
    if (request->sequence % request->context != 0)
        return refuse_division("context", request->context, "the sequence", request->sequence, error);
    if (request->sequence_parallel && request->micro_batch * request->sequence / request->context % tensor != 0)
        return refuse_division("tensor", tensor, "the tokens that sequence parallelism splits",
                               request->micro_batch * request->sequence / request->context, error);
    if (expert > 1 && model->experts == 0)
        return error_set(error, "an expert degree of %llu is for models with experts, and %s has none",
                         (unsigned long long)expert, model->name);
    if (expert > 1 && model->experts % expert != 0)
        return refuse_division("expert", expert, "the experts", model->experts, error);
    const uint64_t group = tensor * request->context;
    if (request->apart > 1 && group % expert != 0)
        return refuse_division("expert", expert, "the devices of a stage of one pipeline, tensor x context of them", group,
                               error);
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
    error_set(error, "%s has no products of %.40s (it has %s)", device->name, dtype, known);
    return NULL;
}

// --- layers -------------------------------------------------------------------

static void (*const makers[])(struct layer_maker *) = {
    [PART_EMBEDDING] = make_embedding, [PART_ATTENTION] = make_attention, [PART_MLP] = make_mlp,
    [PART_EXPERTS] = make_experts, [PART_HEAD] = make_head,
};

// So many that hold the same parameters, those of one pipeline's stage `stride` apart.
static struct group same_parameters(const struct estimate_request *request, double alike, double stride)
{
    const double data = (double)request->data, apart = (double)(request->tensor * request->context * request->apart);
    return request->apart > 1 ? (struct group){ alike / data, stride, data, apart }
                              : (struct group){ .ranks = alike, .stride = stride };
}

// With weights in shares each layer's are gathered while the layer before computes, before F and before B; gradients
// are dealt out behind the next B. What does not fit behind the work is waited for.
static void share_weights(const struct estimate *estimate, struct layer_estimate *layer, double number)
{
    const struct estimate_request *request = &estimate->request;
    const double all = (double)(request->context * request->data);
    const struct group group = same_parameters(request, all, (double)request->tensor);
    if (request->shard != ESTIMATE_SHARD_WEIGHTS || all <= 1 || layer->parameters == 0)
        return;
    const double bytes = (double)layer->parameters * number;
    const double gather = collective_ns(&estimate->device, ALL_GATHER, bytes, group);
    const double deal = collective_ns(&estimate->device, REDUCE_SCATTER, bytes, group);
    struct phase_estimate *forward = &layer->phases[ESTIMATE_F], *backward = &layer->phases[ESTIMATE_I];
    const double work = phase_estimate_ns(backward) + phase_estimate_ns(&layer->phases[ESTIMATE_W]);
    const double in_forward = fmax(0, gather - phase_estimate_ns(forward));
    const double in_backward = fmax(0, gather + deal - work);
    forward->communication_ns += in_forward;
    forward->hidden_ns += gather - in_forward;
    backward->communication_ns += in_backward;
    backward->hidden_ns += gather + deal - in_backward;
}

// A device that is through with its kernels before the host has launched the next ones waits. A launch that is waited
// for takes twice as long: the way to the device and back is about what issuing it is (together 20 us of an operation of
// PyTorch, by NVIDIA's guide to Nsight Systems).
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

static void count_parts(struct estimate *estimate)
{
    const struct transformer *model = &estimate->model;
    uint64_t with_experts = 0;
    for (uint64_t i = 0; i < model->layers; i++)
        with_experts += transformer_has_experts(model, i);
    estimate->counts[PART_EMBEDDING] = estimate->counts[PART_HEAD] = 1;
    estimate->counts[PART_ATTENTION] = model->layers;
    estimate->counts[PART_MLP] = model->layers - with_experts;
    estimate->counts[PART_EXPERTS] = with_experts;
}

// --- between iterations -------------------------------------------------------

// Gradients of 4 bytes are added up over all that hold the same parameters, and the optimizer reads and writes weights
// of two kinds and two moments.
static void add_update(struct estimate *estimate, double number)
{
    enum { GRADIENT = 4, UPDATED = 4 * 7 };
    const struct estimate_request *request = &estimate->request;
    double plain = 0, experts = 0;
    for (int i = 0; i < LAYER_PARTS; i++) {
        const struct layer_estimate *layer = &estimate->parts[i];
        plain += (double)estimate->counts[i] * (double)(layer->parameters - layer->expert_parameters);
        experts += (double)estimate->counts[i] * (double)layer->expert_parameters;
    }
    const double all = (double)(request->context * request->data), tensor = (double)request->tensor;
    const double expert = (double)request->expert, alike = fmax(1, all * tensor / expert);
    const struct group same = same_parameters(request, all, tensor);
    const struct group same_experts = same_parameters(request, alike, expert);
    const bool whole = request->shard == ESTIMATE_SHARD_NONE;
    const enum collective down = whole ? ALL_REDUCE : REDUCE_SCATTER;
    if (request->shard != ESTIMATE_SHARD_WEIGHTS) {
        estimate->reduce_ns = collective_ns(&estimate->device, down, GRADIENT * plain, same)
            + (experts > 0 ? collective_ns(&estimate->device, down, GRADIENT * experts, same_experts) : 0);
        if (!whole)
            estimate->reduce_ns += collective_ns(&estimate->device, ALL_GATHER, number * plain, same)
                + (experts > 0 ? collective_ns(&estimate->device, ALL_GATHER, number * experts, same_experts) : 0);
    }
    const double own = whole ? plain + experts : plain / all + experts / alike;
    estimate->update_ns = pass_ns(&estimate->device, (UPDATED + number) * own);
}

bool estimate_model(const struct transformer *model, const struct rated_device *device,
                    const struct estimate_request *request, struct estimate *estimate, struct error *error)
{
    *estimate = (struct estimate){ .model = *model, .device = *device, .request = *request };
    struct estimate_request *asked = &estimate->request;
    if (asked->sequence == 0)
        asked->sequence = model->longest;
    if (!transformer_takes(model, asked->sequence, error) || !check_degrees(model, asked, error))
        return false;
    if (asked->again & AGAIN_LATENT && !model->is_latent)
        return error_set(error, "latent is for attention that is, and that of %s is not", model->name);
    const struct rated_product *wide = find_product(device, asked->dtype, error);
    const struct rated_product *products = asked->products ? find_product(device, asked->products, error) : wide;
    if (!wide || !products)
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
    for (int i = 0; i < LAYER_PARTS; i++) {
        maker.layer = &estimate->parts[i];
        if (estimate->counts[i] == 0)
            continue;
        makers[i](&maker);
        share_weights(estimate, maker.layer, number);
        wait_for_host(estimate, maker.layer);
    }
    add_update(estimate, number);
    return true;
}

// --- the profile --------------------------------------------------------------

static uint64_t whole_ns(const struct phase_estimate *phase)
{
    return (uint64_t)llround(fmin(phase_estimate_ns(phase), (double)JSON_MAX + 1));
}

// Of a layer's parameters, the share that this device has of what all that hold the same hold once.
static uint64_t own_parameters(const struct estimate *estimate, const struct layer_estimate *layer)
{
    const struct estimate_request *request = &estimate->request;
    const uint64_t all = request->context * request->data;
    const uint64_t alike = all * request->tensor > request->expert ? all * request->tensor / request->expert : 1;
    const uint64_t plain = layer->parameters - layer->expert_parameters, experts = layer->expert_parameters;
    return plain / all + (plain % all > 0) + experts / alike + (experts % alike > 0);
}

// Weights in shares are whole while their layer runs, and so are their gradients.
static void share_states(const struct estimate *estimate, const struct layer_estimate *made,
                         struct profile_layer *layer)
{
    const uint64_t number = profile_dtype_bytes(estimate->request.dtype), whole = layer->parameter_bytes;
    const uint64_t own = own_parameters(estimate, made) * number;
    if (estimate->request.shard == ESTIMATE_SHARD_WEIGHTS) {
        layer->parameter_bytes = own;
        layer->workspace_bytes += whole;
        layer->backward_workspace_bytes += 2 * whole;
    } else if (estimate->request.shard != ESTIMATE_SHARD_NONE) {
        layer->states_elsewhere_bytes = whole - own;
    }
}

void estimate_numbers(const struct estimate *estimate, enum layer_part part, struct profile_layer *layer)
{
    const struct layer_estimate *made = &estimate->parts[part];
    layer->forward_ns = whole_ns(&made->phases[ESTIMATE_F]);
    layer->backward_input_ns = whole_ns(&made->phases[ESTIMATE_I]);
    layer->backward_weight_ns = whole_ns(&made->phases[ESTIMATE_W]);
    layer->backward_ns = layer->backward_input_ns + layer->backward_weight_ns;
    layer->parameter_bytes = made->parameters * profile_dtype_bytes(estimate->request.dtype);
    layer->output_bytes = made->output_bytes;
    layer->saved_bytes = made->saved_bytes;
    layer->input_kept = made->input_kept;
    layer->held_for_weight_bytes = made->held_for_weight_bytes;
    layer->workspace_bytes = made->workspace_bytes;
    layer->backward_workspace_bytes = made->backward_workspace_bytes;
    layer->flops = made->flops;
    share_states(estimate, made, layer);
}

// What published runs took by what was predicted for them, in thousandths: nine of ten are between these
// (bench/peers/compare_estimates.py; docs/estimate.md).
static struct spread validated_spread(const struct estimate *estimate)
{
    if (estimate->model.experts)
        return (struct spread){ 875, 1000, 2253 };
    if (estimate->request.shard == ESTIMATE_SHARD_WEIGHTS)
        return (struct spread){ 914, 1000, 1340 };
    const char *products = estimate->request.products;
    const bool is_narrow = products && strcmp(products, estimate->request.dtype) != 0;
    return is_narrow ? (struct spread){ 877, 1000, 1083 } : (struct spread){ 892, 1000, 1194 };
}

static void set_spread(const struct estimate *estimate, struct profile_layer *layer)
{
    const struct spread of = validated_spread(estimate);
    const uint64_t times[PHASES] = {
        [PHASE_FORWARD] = layer->forward_ns,
        [PHASE_BACKWARD_INPUT] = layer->backward_input_ns,
        [PHASE_BACKWARD_WEIGHT] = layer->backward_weight_ns,
    };
    for (int phase = 0; phase <= PHASE_BACKWARD_WEIGHT; phase++) {
        const double part = (double)times[phase] / 1000;
        layer->has_spread[phase] = true;
        layer->spread[phase] = (struct spread){ (uint64_t)(part * (double)of.min_ns), times[phase],
                                                (uint64_t)ceil(part * (double)of.p95_ns) };
    }
}

static bool set_layer(const struct estimate *estimate, enum layer_part part, const char *name,
                      struct profile_layer *layer)
{
    static const char *const kinds[] = { "embedding", "attention", "mlp", "experts", "head" };
    layer->name = strdup(name);
    layer->kind = strdup(kinds[part]);
    estimate_numbers(estimate, part, layer);
    set_spread(estimate, layer);
    return layer->name && layer->kind;
}

static bool set_layers(const struct estimate *estimate, struct profile *profile)
{
    char name[64];
    struct profile_layer *to = profile->layers;
    bool good = set_layer(estimate, PART_EMBEDDING, "embedding", to++);
    for (uint64_t i = 0; i < estimate->model.layers && good; i++) {
        const bool has_experts = transformer_has_experts(&estimate->model, i);
        snprintf(name, sizeof name, "block%llu.attention", (unsigned long long)i);
        good = set_layer(estimate, PART_ATTENTION, name, to++);
        snprintf(name, sizeof name, "block%llu.%s", (unsigned long long)i, has_experts ? "experts" : "mlp");
        good = good && set_layer(estimate, has_experts ? PART_EXPERTS : PART_MLP, name, to++);
    }
    return good && set_layer(estimate, PART_HEAD, "head", to);
}

enum layer_part estimate_part(const struct estimate *estimate, size_t i)
{
    if (i == 0)
        return PART_EMBEDDING;
    if (i == 2 * (size_t)estimate->model.layers + 1)
        return PART_HEAD;
    if (i % 2 == 1)
        return PART_ATTENTION;
    return transformer_has_experts(&estimate->model, i / 2 - 1) ? PART_EXPERTS : PART_MLP;
}

static bool forbid_cuts(const struct estimate *estimate, struct profile *profile)
{
    const uint32_t blocks = (uint32_t)estimate->model.layers;
    profile->no_cut_after = calloc(blocks, sizeof profile->no_cut_after[0]);
    if (!profile->no_cut_after)
        return false;
    for (uint32_t i = 0; i < blocks; i++)
        profile->no_cut_after[profile->no_cut_count++] = 1 + 2 * i;
    return true;
}

static bool set_source(const struct estimate *estimate, struct profile *profile)
{
    struct profile_source *source = &profile->source;
    for (size_t i = 0; i < profile->layer_count; i++)
        source->sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    source->how = PROFILE_ESTIMATED;
    source->backward_split_measured = false;
    free(source->device);
    source->device = strdup(estimate->device.name);
    if (!estimate->model.is_tied)
        return source->device;
    // The head has no table of its own: it reads the embedding's.
    profile->tied = calloc(1, sizeof profile->tied[0]);
    profile->lent = calloc(1, sizeof profile->lent[0]);
    if (!source->device || !profile->tied || !profile->lent)
        return false;
    profile->tied_count = profile->lent_count = 1;
    profile->tied[0] = profile->lent[0] = (struct edge){ 0, (uint32_t)profile->layer_count - 1 };
    return true;
}

struct profile *estimate_profile(const struct estimate *estimate, struct error *error)
{
    const struct estimate_request *request = &estimate->request;
    const size_t layers = 2 * (size_t)estimate->model.layers + 2;
    struct profile *profile =
        profile_create(estimate->model.name, request->dtype, request->micro_batch, layers, error);
    if (!profile)
        return NULL;
    const char *of_what;
    if (!set_layers(estimate, profile) || !set_source(estimate, profile)
        || (request->whole_blocks && !forbid_cuts(estimate, profile)))
        error_no_memory(error, "a profile");
    else if (profile_overflow_at(profile, &of_what) < layers)
        error_set(error, "the model's %s do not fit in 2^53", of_what);
    else if (profile_rehash(profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}
