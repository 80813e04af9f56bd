// Every kind of layer alone on a device against the same layer in double precision.
//
//     compare_layers DEVICE [SEED [small]]        cuda, cuda:tf32, cuda:bf16, cpu:bf16, ..
//
//     F       output, loss                  all poisoned before: outputs, saved,
//     B       gradients, input_gradient     held, workspaces
//     I, W    the same bits; between the two all that W may not read is ruined
//
// Each case has exactly the memory that the layer says it needs, and is run twice with
// other poison, which must leave the same bits. What is right comes from loops in double
// (slow_layers.h, slow_gradients.h) over the device's own inputs; how near is near, from
// tests/device/trial.h, but in TF32: there a layer's chain of two to four products may be off by
// 5e-4 where the matrix unit rounds what it multiplies to ten bits, by 2e-3 where it cuts it.
#include "device/kernels.h"
#include "models/router.h"
#include "tests/device/trial.h"
#include "tests/models/slow_gradients.h"

static const struct expert_shape
    mixtral = { .router = { .kind = ROUTER_MIXTRAL, .experts = 8, .top = 2 }, .inner = 40, .capacity = 1,
                .auxiliary = 0.3f, .z = 0.1f },
    deepseek = { .router = { .kind = ROUTER_DEEPSEEK, .experts = 8, .top = 3, .groups = 4, .best_groups = 2,
                             .scale = 2.5f }, .inner = 24, .shared = 40, .is_swiglu = true, .auxiliary = 0.3f },
    one_taken = { .router = { .kind = ROUTER_SWITCH, .experts = 5, .top = 1 }, .inner = 72, .capacity = 1.25,
                  .auxiliary = 0.3f };

static const struct kind {
    const char *name;
    const struct layer_kind *kind;
    float dropout;
    bool tied, padded;
    struct attention_pattern pattern;
    const struct expert_shape *experts;
} kinds[] = {
    { "embedding", &layer_embedding, 0, false, false, { 0 }, NULL },
    { "embedding, dropout", &layer_embedding, 0.2f, false, false, { 0 }, NULL },
    { "attention", &layer_attention, 0, false, false, { 0 }, NULL },
    { "attention, dropout", &layer_attention, 0.2f, false, false, { 0 }, NULL },
    { "attention, window", &layer_attention, 0, false, false, { .window = 7 }, NULL },
    { "attention, pattern", &layer_attention, 0, false, false, { .window = 5, .global = 3, .stride = 8, .block = 2 },
      NULL },
    { "mlp", &layer_mlp, 0, false, false, { 0 }, NULL },
    { "mlp, dropout", &layer_mlp, 0.2f, false, false, { 0 }, NULL },
    { "head", &layer_head, 0, false, false, { 0 }, NULL },
    { "tied head", &layer_head, 0, true, false, { 0 }, NULL },
    { "padded head", &layer_head, 0, false, true, { 0 }, NULL },
    { "padded tied head", &layer_head, 0, true, true, { 0 }, NULL },
    { "linear", &layer_linear, 0, false, false, { 0 }, NULL },
    { "relu", &layer_relu, 0, false, false, { 0 }, NULL },
    { "experts", &layer_experts, 0, false, false, { 0 }, &mixtral },
    { "experts, dropout, shared", &layer_experts, 0.2f, false, false, { 0 }, &deepseek },
    { "experts, one taken", &layer_experts, 0, false, false, { 0 }, &one_taken },
};

// Small ones first, of which one has sequences of one position. The last is as wide as gpt2, with few rows; only the
// head has all of its words, and fewer rows still.
static const struct form {
    size_t batch, sequence, width, heads, vocabulary;
    size_t head_sequence, head_vocabulary;
} forms[] = {
    { 2, 19, 48, 3, 61, 19, 61 },
    { 3, 1, 48, 3, 61, 1, 61 },
    { 2, 64, 192, 3, 997, 64, 997 },
    { 1, 64, 768, 12, 997, 8, 50257 },
};
enum { FORMS = sizeof forms / sizeof forms[0], SMALL = 2, KINDS = sizeof kinds / sizeof kinds[0] };

static struct layer layer_of(const struct kind *kind, const struct form *form, enum precision precision)
{
    struct layer layer = { .name = "it", .kind = kind->kind, .index = 3 };
    const bool is_head = kind->kind == &layer_head;
    const size_t vocabulary = is_head ? form->head_vocabulary : form->vocabulary;
    layer.shape = (struct layer_shape){
        .batch = form->batch,
        .sequence = is_head ? form->head_sequence : form->sequence,
        .in = form->width,
        .out = kind->kind == &layer_linear ? form->width / 2 + 8 : form->width,
        .heads = form->heads,
        .pattern = kind->pattern,
        .vocabulary = vocabulary,
        .padding = kind->padded ? 128 - vocabulary % 128 : 0,
        .branches = 4,
        .dropout = kind->dropout,
        .precision = precision,
        .tied = kind->tied,
    };
    if (kind->experts)
        layer.shape.experts = *kind->experts;
    return layer;
}

// --- a run on a device -----------------------------------------------------------------

// One layer with its memory, in a trial's buffers.
struct run {
    struct trial *trial;
    struct layer layer;
    struct layer_sizes sizes;
    struct tensor tensors[LAYER_TENSORS];
    size_t tensor_count, in_count, out_count, tied_count;
    struct buffer *parameters, *input, *output_gradient, *tied, *tokens, *targets;
    struct buffer *output, *saved, *choices;
    struct results {  // of a B, or of an I and a W
        struct buffer *input_gradient, *gradients, *tied_gradients;
    } whole, halves;
    struct layer_pass pass;
    float loss;
};

static struct buffer *last_buffer(struct trial *trial)
{
    return &trial->buffer[trial->buffer_count - 1];
}

static void *address(const struct buffer *buffer)
{
    return buffer ? buffer->device : NULL;
}

static struct buffer *drawn(struct trial *trial, size_t count, double spread)
{
    if (count == 0)
        return NULL;
    trial_drawn(trial, VALUES, count, NULL, 0, spread);
    return last_buffer(trial);
}

// So many bytes to work in, poisoned.
static struct buffer *room(struct trial *trial, uint64_t bytes)
{
    if (bytes == 0)
        return NULL;
    trial_output(trial, FLOATS, bytes / sizeof(float), NULL);
    return last_buffer(trial);
}

static struct buffer *result(struct trial *trial, size_t count, const char *name)
{
    if (count == 0)
        return NULL;
    trial_output(trial, VALUES, count, name);
    return last_buffer(trial);
}

// The spread of weights that keep the size of what goes through them, so many numbers each.
static double evening(size_t numbers)
{
    return sqrt(3.0 / (double)numbers);
}

// Gaps between tensors stay poisoned.
static struct buffer *draw_parameters(struct run *run)
{
    const uint64_t count = run->sizes.parameter_bytes / precision_bytes(run->layer.shape.precision);
    if (count == 0)
        return NULL;
    struct buffer *buffer = trial_poisoned(run->trial, VALUES, count, NULL);
    for (size_t t = 0; t < run->tensor_count; t++) {
        const struct tensor *tensor = &run->tensors[t];
        const bool is_words = run->layer.kind == &layer_embedding;
        const double spread = tensor->rows == 1 ? 0.5 : is_words ? 1 : evening(tensor->rows);
        trial_draw(run->trial, buffer, tensor->offset, tensor->rows * tensor->columns,
                   tensor->start == START_ONE ? 1 : 0, spread);
    }
    trial_give(run->trial, buffer);
    return buffer;
}

// Gradients are added to what is there.
static double start_of(size_t i)
{
    return (double)((float)(i % 7) * 0.01f);
}

static struct buffer *begun(struct trial *trial, size_t count, const char *name)
{
    if (count == 0)
        return NULL;
    struct buffer *buffer = trial_buffer(trial, FLOATS, count, name);
    for (size_t i = 0; i < count; i++)
        buffer_set(buffer, i, (float)start_of(i));
    trial_give(trial, buffer);
    return buffer;
}

static void set_up(struct run *run, struct trial *trial, const struct layer *layer)
{
    const size_t rows = layer->shape.batch * layer->shape.sequence;
    *run = (struct run){ .trial = trial, .layer = *layer };
    if (!layer_ask(&run->layer, trial->device, &trial->error)) {
        fprintf(stderr, "%s\n", trial->error.text);
        exit(2);
    }
    run->sizes = layer_sizes(&run->layer);
    run->in_count = layer->kind == &layer_embedding ? 0 : rows * layer->shape.in;
    run->out_count = layer->kind == &layer_head ? 0 : rows * layer->shape.out;
    run->tied_count = layer->shape.tied ? (layer->shape.vocabulary + layer->shape.padding) * layer->shape.in : 0;
    run->tensor_count = layer_tensors(layer, run->tensors);
    run->parameters = draw_parameters(run);
    run->input = drawn(trial, run->in_count, 1);
    run->output_gradient = drawn(trial, run->out_count, 1);
    run->tied = drawn(trial, run->tied_count, evening(layer->shape.in));
    run->pass = (struct layer_pass){
        .base = { .queue = trial->queue, .step = 6, .micro_batch = 7, .parameters = address(run->parameters),
                  .input = address(run->input), .tied_parameters = address(run->tied), .loss = &run->loss,
                  .auxiliary_loss = &run->loss, .share = 0.5f },
        .seed = 5, .training = true, .loss_weight = 0.25f,
    };
    run->pass.tokens = trial_tokens(trial, rows, layer->shape.vocabulary);
    run->tokens = last_buffer(trial);
    run->pass.targets = trial_tokens(trial, rows, layer->shape.vocabulary);
    run->targets = last_buffer(trial);
}

// Keeps the experts that the device has chosen, which its forward has saved.
static void keep_choices(struct run *run)
{
    const size_t rows = layer_rows(&run->layer), top = run->layer.shape.experts.router.top;
    if (run->layer.kind != &layer_experts)
        return;
    struct walk walk = { run->saved->device, 0 };
    walk_floats(&walk, rows);
    walk_floats(&walk, rows);
    struct routing routing = router_kept(&run->layer, &run->pass, &walk);
    router_saved(&run->layer, &routing, &walk);
    run->choices = room(run->trial, rows * top * sizeof(int32_t));
    queue_copy(run->trial->queue, run->choices->device, routing.choices, rows * top * sizeof(int32_t));
}

static void run_forward(struct run *run)
{
    run->output = result(run->trial, run->out_count, "output");
    run->saved = room(run->trial, run->sizes.saved_bytes);
    run->pass.base.output = address(run->output);
    run->pass.base.saved = address(run->saved);
    struct layer_pass pass = run->pass;
    pass.base.statistics = address(room(run->trial, run->sizes.statistics_bytes));
    pass.base.workspace = address(room(run->trial, run->sizes.workspace_bytes));
    layer_forward(&run->layer, &pass);
    keep_choices(run);
    run->pass.tokens = run->pass.targets = NULL;
    run->pass.base.loss = run->pass.base.auxiliary_loss = NULL;
}

static void make_results(struct run *run, struct results *results)
{
    results->input_gradient = result(run->trial, run->in_count, "input_gradient");
    results->gradients = begun(run->trial, run->sizes.gradient_bytes / sizeof(float), "gradients");
    results->tied_gradients = begun(run->trial, run->tied_count, "tied_gradients");
}

static void run_backward(struct run *run)
{
    struct layer_pass pass = run->pass;
    make_results(run, &run->whole);
    pass.base.output_gradient = address(run->output_gradient);
    pass.base.input_gradient = address(run->whole.input_gradient);
    pass.base.gradients = address(run->whole.gradients);
    pass.base.tied_gradients = address(run->whole.tied_gradients);
    pass.base.workspace = address(room(run->trial, run->sizes.backward_workspace_bytes));
    if (run->sizes.input == INPUT_NEVER)
        pass.base.input = NULL;
    layer_backward(&run->layer, &pass);
}

// What is poisoned on the host is poisoned again on the device.
static void ruin(struct run *run, struct buffer *buffer)
{
    if (buffer)
        trial_give(run->trial, buffer);
}

static void run_halves(struct run *run)
{
    struct layer_pass pass = run->pass;
    make_results(run, &run->halves);
    struct buffer *held = room(run->trial, run->sizes.held_for_weight_bytes);
    struct buffer *gradient = room(run->trial, run->sizes.output_bytes);
    struct buffer *workspace = room(run->trial, run->sizes.backward_workspace_bytes);
    if (gradient)
        queue_copy(pass.base.queue, gradient->device, run->output_gradient->device, run->output_gradient->bytes);
    pass.base.held = address(held);
    pass.base.output_gradient = address(gradient);
    pass.base.input_gradient = address(run->halves.input_gradient);
    pass.base.workspace = address(workspace);
    if (run->sizes.input != INPUT_FOR_BOTH)
        pass.base.input = NULL;
    layer_backward_input(&run->layer, &pass);

    ruin(run, run->saved);
    ruin(run, gradient);
    ruin(run, workspace);
    pass.base.saved = NULL, pass.base.output_gradient = NULL, pass.base.input_gradient = NULL;
    pass.base.input = run->sizes.input == INPUT_NEVER ? NULL : run->pass.base.input;
    pass.base.gradients = address(run->halves.gradients);
    pass.base.tied_gradients = address(run->halves.tied_gradients);
    layer_backward_weight(&run->layer, &pass);
}

static bool run_layer(struct run *run, struct trial *trial, const struct layer *layer, const char *name)
{
    set_up(run, trial, layer);
    run_forward(run);
    run_backward(run);
    run_halves(run);
    return trial_finish(trial, name);
}

// --- what is right -----------------------------------------------------------------------

struct right {
    struct slow_layer slow;
    double *kept, *weighting, *tensors[LAYER_TENSORS], *input, *tied;
    struct slow_gradients gradients;
    double loss;
};

static double *numbers_of(const struct buffer *buffer, size_t first, size_t count)
{
    double *numbers = slow_zeros(count + 1);
    for (size_t i = 0; i < count; i++)
        numbers[i] = buffer_number(buffer, first + i);
    return numbers;
}

// Dropout has the same bits on every device, so the cpu knows what is kept.
static double *kept_of(struct trial *cpu, const struct run *run)
{
    const struct dropout dropout = { .probability = run->layer.shape.dropout,
                                     .key = dropout_key(5, 6, 7, run->layer.index) };
    double *kept = slow_zeros(run->out_count + 1);
    struct values *place = trial_output(cpu, VALUES, run->out_count, NULL);
    kernel_fill(cpu->queue, place, 1, run->out_count);
    kernel_dropout(cpu->queue, place, place, run->out_count, dropout);
    if (!trial_finish(cpu, "dropout"))
        exit(1);
    for (size_t i = 0; i < run->out_count; i++)
        kept[i] = buffer_number(last_buffer(cpu), i);
    trial_clear(cpu);
    return kept;
}

static struct right right_of(struct trial *cpu, const struct run *run)
{
    struct right right = { .kept = kept_of(cpu, run) };
    right.weighting = numbers_of(run->output_gradient, 0, run->out_count);
    right.input = numbers_of(run->input, 0, run->in_count);
    right.tied = numbers_of(run->tied, 0, run->tied_count);
    right.gradients.input = slow_zeros(run->in_count + 1);
    right.gradients.tied = slow_zeros(run->tied_count + 1);
    for (size_t t = 0; t < run->tensor_count; t++) {
        const size_t count = run->tensors[t].rows * run->tensors[t].columns;
        right.tensors[t] = numbers_of(run->parameters, run->tensors[t].offset, count);
        right.gradients.tensors[t] = slow_zeros(count);
    }
    right.slow = (struct slow_layer){
        .layer = &run->layer, .tokens = (const int32_t *)(const void *)run->tokens->host,
        .targets = (const int32_t *)(const void *)run->targets->host, .loss_scale = 0.25, .kept = right.kept,
        .weighting = right.weighting, .tied = right.tied, .share = 0.5, .output = slow_zeros(run->out_count + 1),
    };
    if (run->layer.kind == &layer_experts)
        right.slow.choices = (const int32_t *)(const void *)run->choices->host;
    right.loss = slow_forward(&right.slow, right.tensors, right.input);
    slow_backward(&right.slow, right.tensors, right.input, &right.gradients);
    return right;
}

static void right_clear(struct right *right)
{
    for (size_t t = 0; t < LAYER_TENSORS; t++) {
        free(right->tensors[t]);
        free(right->gradients.tensors[t]);
    }
    free(right->kept);
    free(right->weighting);
    free(right->input);
    free(right->tied);
    free(right->gradients.input);
    free(right->gradients.tied);
    free(right->slow.output);
}

// --- comparing ------------------------------------------------------------------------------

struct verdicts {
    const struct run *run, *again;
    const char *name;
    double bound;
    bool good;
};

// Numbers [first, first + count) of a buffer of both runs, which began as `begins` numbers of their own or as nothing.
static void judge(struct verdicts *verdicts, const struct buffer *got, const struct buffer *again, size_t first,
                  const double *want, size_t count, bool begins, const char *what)
{
    double off = 0, size = 0;
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        const double x = buffer_number(got, first + i), y = buffer_number(again, first + i);
        nearness_add(&off, &size, x - (begins ? start_of(first + i) : 0), want[i]);
        same = same && memcmp(&x, &y, sizeof x) == 0;
    }
    verdicts->good = trial_judge(verdicts->run->trial, verdicts->name, what, nearness(off, size), verdicts->bound, same)
                  && verdicts->good;
}

// An I and a W leave what a B leaves; and gaps between tensors stay as they were.
static void judge_halves(struct verdicts *verdicts)
{
    const struct results *whole = &verdicts->run->whole, *halves = &verdicts->run->halves;
    const struct buffer *pairs[3][2] = { { whole->input_gradient, halves->input_gradient },
                                         { whole->gradients, halves->gradients },
                                         { whole->tied_gradients, halves->tied_gradients } };
    for (size_t i = 0; i < 3; i++)
        if (pairs[i][0] && !buffer_is_same(pairs[i][0], pairs[i][1])) {
            printf("%s: FAILED: I and then W leave other bits of %s than B\n", verdicts->name, pairs[i][0]->name);
            verdicts->good = false;
        }
}

static void judge_gaps(struct verdicts *verdicts)
{
    const struct run *run = verdicts->run;
    size_t next = 0;
    for (size_t t = 0; t <= run->tensor_count; t++) {
        const bool is_end = t == run->tensor_count;
        const size_t end = is_end ? run->sizes.gradient_bytes / sizeof(float) : run->tensors[t].offset;
        for (; next < end; next++)
            if (buffer_number(run->whole.gradients, next) != start_of(next)) {
                printf("%s: FAILED: number %zu of the gradients belongs to no tensor, and was written\n",
                       verdicts->name, next);
                verdicts->good = false;
                return;
            }
        next += is_end ? 0 : run->tensors[t].rows * run->tensors[t].columns;
    }
}

static void judge_all(struct verdicts *verdicts, const struct right *right)
{
    const struct run *run = verdicts->run, *again = verdicts->again;
    if (run->out_count > 0)
        judge(verdicts, run->output, again->output, 0, right->slow.output, run->out_count, false, "output");
    else
        verdicts->good = trial_judge(run->trial, verdicts->name, "loss",
                                     fabs((double)run->loss - right->loss) / fabs(right->loss), verdicts->bound,
                                     memcmp(&run->loss, &again->loss, sizeof run->loss) == 0)
                      && verdicts->good;
    if (run->in_count > 0)
        judge(verdicts, run->whole.input_gradient, again->whole.input_gradient, 0, right->gradients.input,
              run->in_count, false, "input_gradient");
    for (size_t t = 0; t < run->tensor_count; t++)
        judge(verdicts, run->whole.gradients, again->whole.gradients, run->tensors[t].offset,
              right->gradients.tensors[t], run->tensors[t].rows * run->tensors[t].columns, true, run->tensors[t].name);
    if (run->tied_count > 0)
        judge(verdicts, run->whole.tied_gradients, again->whole.tied_gradients, 0, right->gradients.tied,
              run->tied_count, true, "tied words");
    judge_halves(verdicts);
    judge_gaps(verdicts);
}

static bool try_kind(struct trial trials[3], const struct kind *kind, const struct form *form, uint64_t seed,
                     double bound)
{
    const struct layer layer = layer_of(kind, form, trials[1].precision);
    struct run runs[2];
    struct verdicts verdicts = { .run = &runs[0], .again = &runs[1], .name = kind->name, .bound = bound, .good = true };
    for (size_t t = 0; t < 2; t++) {
        trials[1 + t].seed = seed;
        trials[1 + t].rows = layer.shape.batch * layer.shape.sequence;
        trials[1 + t].columns = form->width;
        verdicts.good = verdicts.good && run_layer(&runs[t], &trials[1 + t], &layer, kind->name);
    }
    if (verdicts.good) {
        struct right right = right_of(&trials[0], &runs[0]);
        judge_all(&verdicts, &right);
        right_clear(&right);
    }
    trial_clear(&trials[1]);
    trial_clear(&trials[2]);
    trial_renew(trials);
    return verdicts.good;
}

static int compare_layers(struct trial trials[3], uint64_t seed, double bound, bool small)
{
    const size_t form_count = small ? SMALL : FORMS;
    int failed = 0;
    for (size_t f = 0; f < form_count; f++)
        for (size_t k = 0; k < KINDS; k++)
            failed += !try_kind(trials, &kinds[k], &forms[f], seed + 100 * f + k, bound);
    printf("%zu cases of %d kinds of layer, %d failed\n", form_count * KINDS, (int)KINDS, failed);
    return failed ? 1 : 0;
}

int main(int count, char **arguments)
{
    return trial_main("compare_layers", compare_layers, 3e-3, count, arguments);
}
