// The end of a language model: loss = scale * sum of the cross-entropy of norm(input) WORDS against the targets.
// WORDS is the head's own. For a tied head it is the transposed words of the embedding, which are stored as
// [words][width].
//
// F overwrites the logits with their gradient. Each row is thus read and written once, and there is no second buffer
// of their size; with GPT-2's vocabulary the logits are the largest tensor of all. B reads the gradient in place; I
// hands it to W. A pass that keeps its logits has no gradient
// (docs/decisions/067-the-gradient-of-logits-over-them.md).
//
// Words that are padding only take part in the matrix products:
//
//     a row of logits    |vocabulary's ..     |padding's|gap|
//     of their gradient  |..                  |0 0 0 0 0|0 0|
//                         <-- the loss ------>
//                         <-- the products -------------->
//                         <-- logits_stride() -------------->
//
// A shard has some of the words, and their logits. For each row the shards sum up a table. In it each shard has a
// place of its own for its log sum, which is zero in the tables of all others. Behind these places is the target's
// logit, from the shard that has it. Each shard then joins the log sums (Megatron-LM uses a maximum and a sum over
// devices instead). In the backward each shard has its part of the gradient of the normed input.
//
// Shards that share rows compute the norm of their own rows only; logits and loss are those of all rows. If the words
// cannot be divided evenly, such shards have all of them, and there are no sums.
#include "models/layer_kind.h"

enum { WORDS = NORM_TENSORS };

static void head_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.in;
    norm_tensors(layer, tensors, count);
    if (layer->shape.tied)
        return;
    tensor_add(tensors, count, (struct tensor){ .name = "words", .rows = width, .columns = layer_own_words(layer),
                                                .padding_columns = layer_own_padding(layer),
                                                .padding_of_whole = layer->shape.padding,
                                                .split = layer_splits_words(layer) ? SPLIT_COLUMNS : SPLIT_NONE,
                                                .parts = 1,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
}

// Rows of logits begin at multiples of 16 bytes in either precision, whatever the vocabulary. If GPT-2's 50257 words
// were tightly packed, a tensor core would read them number by number.
static size_t logits_stride(const struct layer *layer)
{
    return (layer_own_words(layer) + 7) / 8 * 8;
}

static size_t own_vocabulary(const struct layer *layer)
{
    return layer_own_words(layer) - layer_own_padding(layer);
}

struct head_saved {
    float *mean, *rstd;
    struct values *logits;  // or their gradient
};

static struct head_saved head_saved(const struct layer *layer, struct walk *walk)
{
    struct head_saved saved;
    saved.mean = walk_floats(walk, layer_own_rows(layer));
    saved.rstd = walk_floats(walk, layer_own_rows(layer));
    saved.logits = walk_values(walk, layer, layer_rows(layer) * logits_stride(layer));
    return saved;
}

static uint64_t head_saved_bytes(const struct layer *layer)
{
    struct walk walk = { 0 };
    head_saved(layer, &walk);
    return walk.bytes;
}

// Workspace of F, in the place of the normed input. It has the table, for shards that split words. Then come the loss
// of each row (for such shards the row's log sum) and the total loss.
struct head_work {
    struct values *normed;
    float *parts, *rows, *loss;
    uint64_t bytes;
};

static struct head_work head_work(const struct layer *layer, const void *workspace)
{
    const size_t rows = layer_rows(layer);
    struct walk normed = { workspace, 0 }, table = { workspace, 0 };
    struct head_work work = { .normed = walk_values(&normed, layer, rows * layer->shape.in) };
    work.parts = layer_splits_words(layer) ? walk_floats(&table, (layer->shape.shards + 1) * rows) : NULL;
    work.rows = walk_floats(&table, rows);
    work.loss = walk_floats(&table, 1);
    work.bytes = max_u64(normed.bytes, table.bytes);
    return work;
}

struct head_held {
    struct values *normed_gradient;
    struct head_saved saved;  // a copy between I and W
};

static struct head_held head_held(const struct layer *layer, struct walk *walk)
{
    struct head_held held;
    held.normed_gradient = walk_values(walk, layer, layer_own_rows(layer) * layer->shape.in);
    held.saved = head_saved(layer, walk);
    return held;
}

static struct kind_sizes head_sizes(const struct layer *layer)
{
    const uint64_t rows = layer_rows(layer), width = layer->shape.in;
    struct walk held = { 0 };
    head_held(layer, &held);
    return (struct kind_sizes){
        .saved_bytes = head_saved_bytes(layer),
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .copied_bytes = head_saved_bytes(layer),
        .forward_workspace_bytes = head_work(layer, NULL).bytes,
        .input_workspace_bytes = layer_shares_rows(layer) ? layer_bytes(layer, rows * width) : 0,
        .weight_workspace_bytes = normed_work(layer, NULL).bytes,
        .flops = 2 * rows * width * own_vocabulary(layer),
    };
}

static struct cross_entropy head_loss(const struct layer *layer, const struct layer_pass *pass,
                                      const struct head_saved *saved)
{
    return (struct cross_entropy){
        .logits = saved->logits, .targets = pass->targets,
        .rows = layer_rows(layer), .columns = own_vocabulary(layer), .stride = logits_stride(layer),
        .scale = pass->loss_weight, .first = layer_first_word(layer), .whole = layer->shape.vocabulary,
    };
}

static const struct values *words_of(const struct layer *layer, const struct layer_pass *pass)
{
    return layer->shape.tied ? pass->base.tied_parameters : layer_parameters(layer, pass->base.parameters).at[WORDS];
}

// logits = normed WORDS.
static void multiply_words(const struct layer *layer, const struct layer_pass *pass, struct values *logits,
                           const struct values *normed, const struct values *words)
{
    kernel_matmul(pass->base.queue, &(struct matmul){
        .m = layer_rows(layer), .n = layer_own_words(layer), .k = layer->shape.in, .transpose_b = layer->shape.tied,
        .a = normed, .b = words, .c = logits, .ldc = logits_stride(layer),
    });
}

// normed_gradient = logits_gradient WORDS^T.
static void multiply_words_back(const struct layer *layer, const struct layer_pass *pass,
                                struct values *normed_gradient, const struct values *logits_gradient)
{
    const struct values *words = words_of(layer, pass);
    kernel_matmul(pass->base.queue, &(struct matmul){
        .m = layer_rows(layer), .n = layer->shape.in, .k = layer_own_words(layer), .transpose_b = !layer->shape.tied,
        .a = logits_gradient, .lda = logits_stride(layer), .b = words, .c = normed_gradient,
    });
}

// The gradient of WORDS += normed^T logits_gradient; for the embedding's words, the same transposed.
static void add_words_gradient(const struct layer *layer, const struct layer_pass *pass, float *gradient,
                               const struct values *normed, const struct values *logits_gradient)
{
    const size_t stride = logits_stride(layer), words = layer_own_words(layer), width = layer->shape.in;
    struct matmul product = { .m = width, .n = words, .k = layer_rows(layer), .transpose_a = true, .a = normed,
                              .b = logits_gradient, .ldb = stride, .sums = gradient };
    if (layer->shape.tied) {
        product.m = words, product.n = width;
        product.a = logits_gradient, product.lda = stride;
        product.b = normed, product.ldb = 0;
    }
    kernel_matmul(pass->base.queue, &product);
}

// Writes what a shard knows of each row to the table.
static void begin_loss(const struct layer *layer, const struct layer_pass *pass, const struct cross_entropy *loss)
{
    const size_t rows = layer_rows(layer), shards = layer->shape.shards;
    float *parts = head_work(layer, pass->base.workspace).parts;
    queue_zero(pass->base.queue, parts, (shards + 1) * rows * sizeof *parts);
    kernel_cross_entropy_part(pass->base.queue, loss, parts + layer->shape.shard * rows, parts + shards * rows);
}

static struct head_saved saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    return head_saved(layer, &(struct walk){ pass->base.saved, 0 });
}

static struct head_held held_of(const struct layer *layer, const struct layer_pass *pass)
{
    struct head_held held = head_held(layer, &(struct walk){ pass->base.held, 0 });
    if (pass->is_both)
        held.saved = saved_of(layer, pass);
    return held;
}

static void multiply(const struct layer *layer, const struct layer_pass *pass)
{
    const struct head_saved saved = saved_of(layer, pass);
    const struct cross_entropy loss = head_loss(layer, pass, &saved);
    multiply_words(layer, pass, saved.logits, head_work(layer, pass->base.workspace).normed, words_of(layer, pass));
    if (layer_splits_words(layer))
        begin_loss(layer, pass, &loss);
}

static struct shard_part loss_summed(const struct layer *layer, const struct layer_pass *pass)
{
    if (!layer_splits_words(layer))
        return (struct shard_part){ 0 };
    return (struct shard_part){ .numbers = head_work(layer, pass->base.workspace).parts, .are_floats = true,
                                .count = (layer->shape.shards + 1) * layer_rows(layer) };
}

// Computes the loss from the table, for shards that split words. A shard's gradient is that of its own logits.
static void end_split(const struct layer *layer, const struct layer_pass *pass, struct cross_entropy loss,
                      float gradient_scale)
{
    const struct head_work work = head_work(layer, pass->base.workspace);
    const struct cross_entropy_parts parts = { work.parts, layer->shape.shards, loss.rows, loss.scale, loss.targets };
    kernel_cross_entropy_join(pass->base.queue, &parts, work.loss, work.rows);
    loss.scale = gradient_scale;
    if (!pass->keeps_logits)
        kernel_cross_entropy_backward(pass->base.queue, &loss, saved_of(layer, pass).logits, work.rows);
}

static void end_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct head_saved saved = saved_of(layer, pass);
    const struct head_work work = head_work(layer, pass->base.workspace);
    const struct cross_entropy loss = head_loss(layer, pass, &saved);
    const float gradient_scale = loss.scale * layer_loss_scale(pass);
    if (layer_splits_words(layer))
        end_split(layer, pass, loss, gradient_scale);
    else if (pass->keeps_logits)
        kernel_cross_entropy(pass->base.queue, &loss, work.loss, work.rows);
    else
        kernel_cross_entropy_both(pass->base.queue, &loss, work.loss, work.rows, saved.logits, gradient_scale);
}

static float *head_loss_place(const struct layer *layer, const struct layer_pass *pass)
{
    return head_work(layer, pass->base.workspace).loss;
}

const struct values *layer_logits(const struct layer *head, const void *saved, size_t row)
{
    const struct head_saved all = head_saved(head, &(struct walk){ saved, 0 });
    return values_at(all.logits, head->shape.precision, row * logits_stride(head));
}

// The place for the gradient of the normed input, of all rows.
static struct values *normed_gradient_of(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_shares_rows(layer) ? pass->base.workspace : held_of(layer, pass).normed_gradient;
}

static void multiply_back(const struct layer *layer, const struct layer_pass *pass)
{
    multiply_words_back(layer, pass, normed_gradient_of(layer, pass), saved_of(layer, pass).logits);
}

static struct shard_part input_summed(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_splits_words(layer) ? summed_rows(layer, normed_gradient_of(layer, pass)) : (struct shard_part){ 0 };
}

static void end_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct head_saved saved = saved_of(layer, pass);
    const struct head_held held = held_of(layer, pass);
    keep_own_rows(layer, pass, held.normed_gradient, normed_gradient_of(layer, pass));
    kernel_layer_norm_backward_input(pass->base.queue, &norm, pass->base.input_gradient, held.normed_gradient, NULL,
                                     saved.mean, saved.rstd);
    if (!pass->is_both)
        queue_copy(pass->base.queue, held.saved.mean, pass->base.saved, head_saved_bytes(layer));  // all, as stored
}

static void begin_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct head_saved saved = held_of(layer, pass).saved;
    norm_again(layer, pass, saved.mean, saved.rstd);
}

static void multiply_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct head_held held = held_of(layer, pass);
    const struct normed_work work = normed_work(layer, pass->base.workspace);

    add_words_gradient(layer, pass, layer->shape.tied ? pass->base.tied_gradients : gradients.at[WORDS], work.normed,
                       held.saved.logits);
    norm_backward_weight(layer, pass, held.normed_gradient, held.saved.mean, held.saved.rstd);
}

const struct layer_kind layer_head = {
    .name = "head",
    .data = DATA_TARGETS,
    .tensors = head_tensors,
    .sizes = head_sizes,
    .forward = { { norm_forward, workspace_gathered }, { multiply, loss_summed }, { end_forward, NULL } },
    .backward_input = { { multiply_back, input_summed }, { end_input, NULL } },
    .backward_weight = { { begin_weight, workspace_gathered }, { multiply_weight, norm_gradients_part },
                         { norm_gradients_end, NULL } },
    .loss = head_loss_place,
};
