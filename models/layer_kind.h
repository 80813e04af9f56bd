// Private: the parts of a kind of layer, and the layout of its memory.
#ifndef MODELS_LAYER_KIND_H
#define MODELS_LAYER_KIND_H

#include "common/number.h"
#include "device/kernels.h"
#include "models/layer.h"

// The sizes that a kind itself knows; layer_sizes() computes the others from them.
struct kind_sizes {
    uint64_t output_bytes, saved_bytes;
    uint64_t shared_by_parts_bytes;  // included in saved_bytes, except for a part of a sequence
    enum layer_input input;
    uint64_t held_bytes;   // without the output's gradient
    uint64_t copied_bytes; // the last of held_bytes: copies of what F saved, which B does not need
    uint64_t forward_workspace_bytes, input_workspace_bytes, weight_workspace_bytes;
    uint64_t state_bytes, statistics_bytes;
    bool trains_by_state, has_auxiliary_loss;
    uint64_t touched_rows, row_columns, summed_rows;
    uint64_t flops;
};

// A pass of a kind is a sequence of steps. After a step, the shards of a layer may communicate.
struct kind_step {
    void (*run)(const struct layer *layer, const struct layer_pass *pass);  // NULL: there are no more steps
    struct shard_part (*part)(const struct layer *layer, const struct layer_pass *pass);  // NULL: they do not
};
enum { KIND_STEPS = 4 };

// In both backwards, pass->output_gradient is the output's gradient, wherever it is, and pass->held is what follows
// it in `held`. If pass->is_both, that is without the copies.
//
// A kind is one file, whose last lines fill this in, and one row in the list of layer.h. What a kind does not name, it
// does not have.
struct layer_kind {
    const char *name;
    enum layer_data data;  // of the micro-batch, which the runtime must fetch for it
    // Each shard has an equal number of these: "heads". NULL: shards have words, or there are none.
    const char *shared;
    size_t (*shared_count)(const struct layer *layer);
    bool takes_whole_sequences;  // they never come in parts
    bool is_attention;           // of the halves of a block
    void (*tensors)(const struct layer *layer, struct tensor *tensors, size_t *count);  // NULL: it has none
    bool (*ask)(struct layer *layer, struct device *device, struct error *error);  // NULL: it has nothing to ask
    struct kind_sizes (*sizes)(const struct layer *layer);
    struct kind_step forward[KIND_STEPS];
    struct kind_step backward_input[KIND_STEPS];
    struct kind_step backward_weight[KIND_STEPS];  // none: there is no W
    // For a layer that computes the loss: where F leaves it, a float on the device. It is handed on behind F, summed
    // over members that own rows.
    float *(*loss)(const struct layer *layer, const struct layer_pass *pass);
    // With a state: the functions of layer.h
    void (*initialize_state)(const struct layer *layer, struct queue *queue, void *state);
    void (*fold)(const struct layer *layer, const struct weir_fold *fold);
    size_t (*states)(const struct layer *layer, struct weir_tensor *states);
    struct layer_choices (*choices)(const struct layer *layer, const void *saved);  // if it chooses experts
};

// The loss as the members that own rows exchange it, and the end of its way to the host.
struct shard_part layer_loss_part(const struct layer *layer, const struct layer_pass *pass);
void layer_hand_loss_on(const struct layer *layer, const struct layer_pass *pass);

// Whether the layer is one of several that communicate in its passes. Members that own rows do so only if they have
// parts of its weights. (The loss is added up behind F.)
static inline bool layer_exchanges(const struct layer *layer)
{
    return layer->shape.shards > 1 || layer_has_places(layer);
}

// This shard's share of something that is split evenly.
static inline size_t layer_share(const struct layer *layer, size_t whole)
{
    return layer->shape.shards > 1 ? whole / layer->shape.shards : whole;
}

// The passes that the kind's own functions get in B, in I, and in W alone.
struct layer_pass layer_pass_of_backward(const struct layer *layer, const struct layer_pass *pass);
struct layer_pass layer_pass_of_input(const struct layer *layer, const struct layer_pass *pass);
struct layer_pass layer_pass_of_weight(const struct layer *layer, const struct layer_pass *pass);

// Whether `shards` shards can share the layer's rows. The rows must divide evenly. Each share must also be a tensor of
// its own, which begins at a multiple of 256 bytes even if all shares are stored one after the other.
bool layer_can_share_rows(const struct layer *layer, size_t shards);

// Walks over a shard's tensor in spans of numbers that are adjacent in the whole tensor as well. The caller counts
// `run`, the span's number, from 0. False after the last span.
struct tensor_run {
    size_t own, whole, count;  // the first number in the shard's and in the whole tensor, and the count
    size_t drawn, drawn_count;  // the first in the whole tensor without padding, and how many of those
};
bool tensor_run(const struct layer *layer, const struct tensor *tensor, size_t run, struct tensor_run *found);

static inline size_t layer_rows(const struct layer *layer)
{
    return layer->shape.batch * layer->shape.sequence;
}

// Numbers of the output, without shards.
static inline size_t layer_elements(const struct layer *layer)
{
    return layer_rows(layer) * layer->shape.out;
}

// For a shard that shares rows: its own rows, and where they begin. For other layers: all rows.
static inline bool layer_shares_rows(const struct layer *layer)
{
    return layer->shape.shards > 1 && layer->shape.shares_rows;
}

static inline size_t layer_own_rows(const struct layer *layer)
{
    return layer_shares_rows(layer) ? layer_rows(layer) / layer->shape.shards : layer_rows(layer);
}

static inline size_t layer_first_row(const struct layer *layer)
{
    return layer_shares_rows(layer) ? layer->shape.shard * layer_own_rows(layer) : 0;
}

// Numbers of one input, without shards.
static inline size_t layer_input_elements(const struct layer *layer, size_t input)
{
    const struct picture_shape *picture = &layer->shape.picture;
    return layer->shape.batch * picture->height * picture->width * layer->input_widths[input];
}

// A kind that can be split has steps after which shards communicate. Tables and experts are split over members that own
// rows only.
static inline bool kind_can_be_split(const struct layer_kind *kind)
{
    const bool is_cut = kind == &layer_router || kind == &layer_products || kind == &layer_combine;
    return kind->forward[0].part != NULL && kind->data != DATA_IDS && !is_cut;
}

static inline bool layer_is_part(const struct layer *layer)
{
    return layer->shape.whole > 0;
}

// Positions of the whole sequence.
static inline size_t layer_positions(const struct layer *layer)
{
    return layer_is_part(layer) ? layer->shape.whole : layer->shape.sequence;
}

// Words as stored, of all shards: those of the vocabulary, then the padding.
static inline size_t layer_words(const struct layer *layer)
{
    return layer->shape.vocabulary + layer->shape.padding;
}

// Whether `shards` shards can have equally many words each, with all of the padding on the last one.
static inline bool layer_can_split_words(const struct layer *layer, size_t shards)
{
    const size_t words = layer_words(layer);
    return words % shards == 0 && layer->shape.padding < words / shards;
}

// Shards that share rows may instead have all words each.
static inline bool layer_splits_words(const struct layer *layer)
{
    return layer->shape.shards > 1 && layer_can_split_words(layer, layer->shape.shards);
}

// This shard's words: how many, where they begin, and how many are padding, which only the last shard has.
static inline size_t layer_own_words(const struct layer *layer)
{
    return layer_splits_words(layer) ? layer_words(layer) / layer->shape.shards : layer_words(layer);
}

static inline size_t layer_first_word(const struct layer *layer)
{
    return layer_splits_words(layer) ? layer->shape.shard * layer_own_words(layer) : 0;
}

static inline size_t layer_own_padding(const struct layer *layer)
{
    const bool is_last = !layer_splits_words(layer) || layer->shape.shard + 1 == layer->shape.shards;
    return is_last ? layer->shape.padding : 0;
}

// --- places ---------------------------------------------------------------------
//
// A kind lists its tensors once, in one walk over a piece of memory. A walk over NULL gives the size:
//
//     struct walk walk = { pass->saved, 0 };
//     struct mlp_saved saved = { walk_floats(&walk, rows), ... };

struct walk {
    const void *base;  // NULL: only counting
    uint64_t bytes;
};

static inline void *walk_bytes(struct walk *walk, uint64_t bytes)
{
    char *place = walk->base ? (char *)walk->base + walk->bytes : NULL;
    walk->bytes += round_to_256(bytes);
    return place;
}

static inline float *walk_floats(struct walk *walk, uint64_t count)
{
    return walk_bytes(walk, count * sizeof(float));
}

// What gradients of losses are multiplied by, beside what the losses count: in fp16 the loss scale.
static inline float layer_loss_scale(const struct layer_pass *pass)
{
    return pass->base.loss_scale > 0 ? pass->base.loss_scale : 1;
}

// Bytes of `count` numbers in the layer's precision, rounded up to 256.
static inline uint64_t layer_bytes(const struct layer *layer, uint64_t count)
{
    return round_to_256(count * precision_bytes(layer->shape.precision));
}

static inline struct values *walk_values(struct walk *walk, const struct layer *layer, uint64_t count)
{
    return walk_bytes(walk, layer_bytes(layer, count));
}

// --- parameters ------------------------------------------------------------------

// Adds a tensor after those already there.
void tensor_add(struct tensor *tensors, size_t *count, struct tensor tensor);

// The places of a layer's tensors in its parameters, and in their gradients, in the order of layer_tensors().
struct parameters {
    const struct values *at[LAYER_TENSORS];
};
struct parameters layer_parameters(const struct layer *layer, const void *parameters);

struct gradients {
    float *at[LAYER_TENSORS];
};
struct gradients layer_gradients(const struct layer *layer, void *gradients);

// --- what several kinds do -----------------------------------------------------------

// The sizes of a kind that saves nothing and needs no workspace, and whose backward does not read its input.
struct kind_sizes plain_sizes(const struct layer *layer);
// The same of one that saves a byte for each number of its output.
struct kind_sizes marked_sizes(const struct layer *layer);

// A step behind which the shards communicate, and which does nothing else.
void do_nothing(const struct layer *layer, const struct layer_pass *pass);

// The numbers of a shard's own rows, within those of all rows.
struct values *own_rows_of(const struct layer *layer, const void *numbers);

// Exchanges of the shards. Gathered rows: if rows are shared, each shard has its share and gets all of them. Summed
// rows: each has a part of a sum, as large as all rows, and gets the whole sum, or its share of it if rows are shared.
// The last two do this with the rows at the beginning of the workspace.
struct shard_part gathered_rows(const struct layer *layer, void *numbers);
struct shard_part summed_rows(const struct layer *layer, void *numbers);
struct shard_part workspace_gathered(const struct layer *layer, const struct layer_pass *pass);
struct shard_part workspace_summed(const struct layer *layer, const struct layer_pass *pass);

// Copies a shard's own rows out of all rows if it shares them; otherwise they are already in place.
void keep_own_rows(const struct layer *layer, const struct layer_pass *pass, struct values *kept,
                   const struct values *all);

// The dropout of this layer in this pass, for its own rows.
struct dropout dropout_of(const struct layer *layer, const struct layer_pass *pass);

// The output's gradient after the backward of dropout: the output's gradient itself, or a copy with zeros in `place`.
const struct values *gradient_behind_dropout(const struct layer *layer, const struct layer_pass *pass,
                                             struct values *place);

// The same, written to this shard's rows in a place for all rows, from which it is then gathered.
void own_gradient_behind_dropout(const struct layer *layer, const struct layer_pass *pass, struct values *all);

// W's workspace: the normed input of all rows. Shards that share rows also have the gradients of gain and offset
// there, which are then summed over all shards.
struct normed_work {
    struct values *normed;
    float *sums;
    uint64_t bytes;
};
struct normed_work normed_work(const struct layer *layer, const void *workspace);

// A norm of the input in front of a kind. Its gain and offset are the kind's first tensors, and its mean and rstd are
// the first of what F saves.
enum { NORM_GAIN, NORM_OFFSET, NORM_TENSORS };
void norm_tensors(const struct layer *layer, struct tensor *tensors, size_t *count);
struct layer_norm layer_norm_of(const struct layer *layer, const struct layer_pass *pass);

// F's first step, and W's: a shard's own rows, normed, in their place at the beginning of the workspace.
void norm_forward(const struct layer *layer, const struct layer_pass *pass);
void norm_again(const struct layer *layer, const struct layer_pass *pass, const float *mean, const float *rstd);

// Gradients of gain and offset in W. The first function adds them to the workspace's sums, or directly to the
// gradients if rows are not shared. The second is what the shards then exchange. The third adds the sums to the
// gradients.
void norm_backward_weight(const struct layer *layer, const struct layer_pass *pass,
                          const struct values *normed_gradient, const float *mean, const float *rstd);
struct shard_part norm_gradients_part(const struct layer *layer, const struct layer_pass *pass);
void norm_gradients_end(const struct layer *layer, const struct layer_pass *pass);

// out = in weight + bias; weight is [in_width][out_width], bias may be NULL.
void project(struct queue *queue, struct values *out, const struct values *in, const struct values *weight,
             const struct values *bias, size_t rows, size_t in_width, size_t out_width);
// in_gradient = out_gradient weight^T.
void project_back(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                  const struct values *weight, size_t rows, size_t in_width, size_t out_width);
// weight_gradient += in^T out_gradient.
void project_weight(struct queue *queue, float *weight_gradient, const struct values *in,
                    const struct values *out_gradient, size_t rows, size_t in_width, size_t out_width);

#endif
