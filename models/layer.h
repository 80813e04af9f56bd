// A layer: the smallest unit that can be placed on a stage.
//
// A *kind* is written once over device functions. A *layer* is a kind with a name and a shape. A layer has no state
// and allocates nothing. A *pass* gives it all that it may read and write. The bytes of each are known before any
// device is opened, except the workspace of a device's own libraries, which that device must be asked for
// (layer_ask()). In the words of a profile, F is the forward, I the backward for the input, and W the backward for
// the weights:
//
//                 F                      I                          W
//     reads    parameters, input     parameters, output_gradient,  parameters, held,
//                                    saved, input (if INPUT_FOR_BOTH)  input (unless INPUT_NEVER)
//     writes   output, saved         input_gradient, held          gradients (added to)
//
//     held   |output's gradient|what else W needs from F and I|
//             ^ starts here, so that the layer above can write its input's gradient straight to its place
//
// After I, `saved` is no longer needed, nor is the output's gradient if it is elsewhere than in `held`. W reads only
// what the table says. B is I and then W, with the same bits. Its `held` is in its workspace, without the copies of
// what F saved: W then reads the originals. Every tensor begins at a multiple of 256 bytes, and sizes are sums of
// such tensors.
//
// A sequence may come in parts, one pass after the other, forward in order and backward in reverse. Each part is a
// pass of its own, with tensors of its own rows only. The data that parts have in common (for attention the KV
// cache, here with the queries) is `shared_by_parts`. It holds the whole sequence, and exists from the first part's F
// to that part's B. Its gradient exists from the first B on, which is that of the last part. A part's dropout is its
// own.
//
// Tensors of activations are [batch][sequence][width] numbers in the precision that the shape names; so are
// parameters. In a model of pictures the sequence is the pixels, row by row, and the width is the channels. Pixels are
// no sequence that may come in parts. Gradients of parameters are always floats: the gradient of parameter number i is
// float i.
#ifndef MODELS_LAYER_H
#define MODELS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/public/weir_layer.h"
#include "device/picture_kernels.h"
#include "device/row_exchange.h"
#include "device/table_kernels.h"

// What only layers of pictures have. The rows of their shape are the pixels of the output.
struct picture_shape {
    size_t height, width;     // of the input; 0: no layer of pictures
    struct window window;     // of a convolution, or of pooling
    size_t groups;            // of a convolution
    size_t factor;            // of upsampling
    bool has_bias, has_relu;
    float smoothing;          // of the labels
};

// What only layers of tables, and of their vectors, have. A slot is a field of a sample, such as the site that an
// advertisement was on. It has a table, whose rows are the vectors of its ids.
enum { LAYER_TABLES = 128 };

// The place of each table, among members that own rows (shards.h). Without places, each of them has all tables.
enum table_way { TABLE_ON_ALL, TABLE_ON_ONE, TABLE_BY_ROWS, TABLE_BY_COLUMNS };
struct table_places {
    bool are_given;
    bool weighs;          // ids have weights in the lists of members, whether or not the model's have
    size_t unit;          // columns of a unit (table_places.h)
    size_t sent, copied;  // units of a sample: the most that a member has a part of, and those that all have
    struct {
        enum table_way way;
        uint64_t members;  // bit m: member m has a part
        bool on_host;      // the parts are in the hosts' memory
    } of[LAYER_TABLES];
    bool only_host;  // of a member's parts, only these make up its layer
};

struct table_shape {
    size_t slots, columns;        // of a vector
    size_t most;                  // ids of a slot of one sample
    bool is_mean, has_weights;    // the vectors of a slot are averaged; ids have weights
    uint32_t rows[LAYER_TABLES];  // of each table
    // Rows of all tables together that the device has room for. The tables themselves are in the host's memory, and the
    // ids are those of rows on the device. 0: all rows are on the device
    size_t room;
    // Vectors are exchanged by a layer behind the tables (exchange.c), and, if `is_message`, by the runtime in front of
    // that layer
    bool has_exchange, is_message;
    struct table_places places;
};

// What only layers of experts have (experts.c).
struct expert_shape {
    struct router router;
    size_t number;         // of this layer among those of experts in its model
    size_t inner, shared;  // widths inside of an expert, and of the shared one; shared 0: there is none
    bool is_swiglu;
    // How many times the even share of a micro-batch's choices an expert takes; 0: all that come (dropless)
    double capacity;
    float auxiliary, z;    // coefficients of the losses
    float speed;           // of deepseek's bias: how far an update moves it
    // If members own rows: the member that has each expert, or ROW_COPIED for one that all have (expert_places.h). The
    // most that one of them has, with the copied ones, and how many these are
    bool have_places;
    uint8_t owners[ROUTER_EXPERTS];
    size_t most, copies;
    size_t most_rows;  // if it is not 0: the most rows that one of them takes
    // The layer is one of the three into which one of experts is cut (cut_experts.c). If `is_message`, the runtime
    // exchanges the rows in front of it
    bool is_cut, is_message;
};

struct layer_shape {
    size_t batch, sequence;   // rows = batch * sequence
    size_t first, whole;      // for a part of a sequence: where it begins, and the whole length; whole 0: not a part
    size_t in, out;           // widths; for a half-block both are the model's width
    size_t heads;             // for attention
    struct attention_pattern pattern;  // likewise: which tokens see which; 0: all see all before them
    size_t vocabulary;        // for embedding and head
    size_t padding;           // words behind them that no token names, which give products an even size
    size_t branches;          // residual branches in the model: weights at their ends start smaller by the root of it
    float dropout;            // for embedding and branches
    enum precision precision; // of the device that the layer is to run on
    bool tied;                // for a head: its words are the embedding's
    size_t shards, shard;     // over how many it is split, and which of them this is (shards.h); shards 0: whole
    bool shares_rows;         // for a shard: input and output are its share of the rows
    // How many members share the samples of a micro-batch (own rows, shards.h), which of them this is, and how many
    // samples there are. Then `batch` is the largest share; with 0 members all samples are here
    size_t members, member, whole_batch;
    bool unbiased;            // for a linear layer
    struct picture_shape picture;
    struct table_shape tables;
    struct expert_shape experts;
};

enum { LAYER_NAME_SIZE = 32, LAYER_TENSORS = LAYER_TABLES, LAYER_INPUTS = WEIR_MOST_INPUTS };

struct layer {
    char name[LAYER_NAME_SIZE];  // "block0.attention"
    const struct layer_kind *kind;
    uint32_t index;              // in its model
    struct layer_shape shape;
    uint32_t inputs[LAYER_INPUTS];      // indices in its model of the layers that it reads
    size_t input_widths[LAYER_INPUTS];  // and the width of each
    uint32_t input_count;
    bool has_constant_inputs;    // no gradient of them is wanted (weir_layer.h)
    bool has_asked;
    struct attention_bytes attention;      // if it has asked: the workspace of its attention,
    struct convolution_bytes convolution;  // or of its convolution
};

// The kinds. A half-block is norm, branch, dropout and residual, so that a block can be cut in its middle. The head
// is norm, projection and loss. A new kind is a file of its own and a row here (layer_kind.h says what it consists of).
extern const struct layer_kind
    layer_attention,
    layer_average_pool,
    layer_batch_norm,
    layer_binary_cross_entropy,
    layer_combine,
    layer_concat,
    layer_convolution,
    layer_cross,
    layer_cross_entropy,
    layer_dropout,
    layer_embedding,
    layer_exchange,
    layer_experts,
    layer_head,
    layer_interaction,
    layer_linear,
    layer_max_pool,
    layer_mlp,
    layer_numbers,
    layer_picture,
    layer_products,
    layer_relu,
    layer_router,
    layer_row_sum,
    layer_sum,
    layer_tables,
    layer_upsample;

const char *layer_kind_name(const struct layer *layer);  // "attention"

// What a layer reads of the micro-batch itself: nothing, its tokens or pixels, numbers or ids, or the targets, from
// which the last layer makes the loss. In models of pictures and of clicks a target is a label, one per sample.
enum layer_data { DATA_NONE, DATA_TOKENS, DATA_PIXELS, DATA_NUMBERS, DATA_IDS, DATA_TARGETS };
enum layer_data layer_data(const struct layer *layer);

// Whether members that own rows have parts of the layer's weights each: some of its tables, or of its experts.
static inline bool layer_has_places(const struct layer *layer)
{
    return layer->shape.tables.places.are_given || layer->shape.experts.have_places;
}

// Whether the layer has a share of the samples of a micro-batch, with rows of its own (shards.h).
static inline bool layer_owns_rows(const struct layer *layer)
{
    return layer->shape.members > 1;
}

// The samples of a micro-batch that a layer computes: all of them, or its share.
struct sample_share {
    size_t first, count;
};
struct sample_share layer_samples(const struct layer *layer);

// Asks the device that the layer is to run on how much workspace its kernels take there. Sizes and passes then use
// the answer. A layer that has not asked may run only on devices of the `cpu` maker. False if the device cannot tell.
bool layer_ask(struct layer *layer, struct device *device, struct error *error);

// Whether the backward needs the input: never, for W only, or for I and W.
enum layer_input { INPUT_NEVER, INPUT_FOR_WEIGHT, INPUT_FOR_BOTH };

struct layer_sizes {
    uint64_t parameter_bytes;
    uint64_t gradient_bytes;  // of the parameters
    uint64_t output_bytes;    // 0 for a head
    uint64_t saved_bytes;   // kept from F until B or I, without the input
    uint64_t shared_by_parts_bytes;   // the part of these that parts of a sequence have in common
    enum layer_input input;
    uint64_t held_for_weight_bytes;     // between I and W, the output's gradient first; 0: there is no W
    uint64_t workspace_bytes;           // of F
    uint64_t backward_workspace_bytes;  // of B, I or W, whichever needs most
    uint64_t state_bytes, statistics_bytes;  // state without a gradient, and what an F sets (weir_layer.h)
    bool trains_by_state, has_auxiliary_loss;  // likewise
    uint64_t touched_rows;              // of each tensor, the most that a micro-batch has a gradient of; 0: all
    uint64_t row_columns, summed_rows;  // if rows are not those of tensors (weir_layer.h)
    uint64_t flops;  // of F: matrix products, attention's of what is seen, or half; without padding
};
struct layer_sizes layer_sizes(const struct layer *layer);

// The collective that the shards of a layer (tensor-parallel ranks) take part in. Numbers are divided into as many
// equal consecutive shares as there are shards.
enum shard_exchange {
    SHARD_ALL_REDUCE,      // each gets the sum of all parts in place of its own
    SHARD_REDUCE_SCATTER,  // each gets its share of that sum, in its place; the other shares become undefined
    SHARD_ALL_GATHER,      // each has its share, in its place, and gets the shares of all
    SHARD_ALL_TO_ALL,      // share i of each goes to member i, which finds them in `received`, in the order of members
    SHARD_ROWS,            // rows of `count` numbers each go to the members that have their experts, or back
};

// A shard's contribution: numbers of the layer's precision, or floats. count 0: there is nothing to exchange.
struct shard_part {
    void *numbers;
    size_t count;
    bool are_floats;
    enum shard_exchange exchange;
    void *received;  // of an all-to-all: as many numbers, elsewhere; of rows: where they go
    struct row_exchange rows;
};

// How the shards of a layer communicate, in the order of the queue. A sum is part 0 + part 1 + .., rounded after each
// addition like kernel_add(), or kernel_add_floats().
struct shard_sum {
    void *self;
    void (*add)(void *self, struct queue *queue, const struct shard_part *part);
};

// A part of the layer: the same layer, for the positions of this part only. `splits` 0 or 1: the layer itself.
struct layer layer_part(const struct layer *layer, uint32_t split, uint32_t splits);

// The largest number of equal parts, 128 at most, that a sequence can be split into; 1: it cannot be split. The
// tensors of each part must fit into an equal share of what the whole layer takes, rounded down to 256 bytes. For
// saved tensors the share is without what parts share. The same must hold for every divisor of the number.
uint32_t layer_most_splits(const struct layer *layer);

// The ids of a micro-batch on the device, as kernel_bag() reads them: rows of all tables together, sample by sample and
// slot by slot. There is room for layer_most_ids().
struct id_lists {
    const int32_t *rows, *ends;
    const float *weights;  // NULL: all are 1
};
size_t layer_most_ids(const struct layer *layer);
// Columns of the rows that ids name: a vector's, or a unit's (table_places.h).
size_t layer_row_columns(const struct layer *layer);
size_t layer_bags(const struct layer *layer);  // lists of ids in a micro-batch
bool layer_weighs_ids(const struct layer *layer);  // whether the lists have weights
// The row that an id has in a table of so many rows. It comes from the id alone: the id itself if there is such a row,
// else its hash (splitmix64) modulo the rows.
uint32_t layer_table_row(uint32_t rows, uint32_t id);

// A pass: the data of a call, as every layer gets them, and what only layers of this room are told.
struct layer_pass {
    // In `held` the output's gradient comes first, and output_gradient may be there. In B `held` is not used. An
    // embedding has no input, and a head no output. input_gradient is NULL with has_constant_inputs.
    struct weir_pass base;
    // Dropout depends on this, on which pass it is, and on nothing else.
    uint64_t seed;
    bool training;           // false: nothing is dropped
    const int32_t *tokens;   // on the device; F of an embedding; the tokens of the part
    const float *pixels;     // on the device; F of a source of pictures
    const float *numbers;    // likewise, of a source of numbers
    struct id_lists ids;     // likewise, F of tables
    const int32_t *targets;  // on the device; F of a head
    uint64_t *lacked_rows;   // of experts: row_exchange.h. NULL: without room for rows the queue fails
    size_t whole_samples;    // of the whole micro-batch that count, if members share it; 0: all
    float loss_weight;       // F of a head: one over the number of samples of the whole step
    // F of a head: the logits stay for layer_logits(), and no backward may follow. Otherwise their gradient overwrites
    // them.
    bool keeps_logits;
    const struct shard_sum *sum;  // for a shard. NULL: nothing is summed, so that one shard can be measured alone
    bool is_both;                 // set by layer_backward() for the kind: W reads what F saved
};

void layer_forward(const struct layer *layer, const struct layer_pass *pass);
void layer_backward(const struct layer *layer, const struct layer_pass *pass);
void layer_backward_input(const struct layer *layer, const struct layer_pass *pass);
void layer_backward_weight(const struct layer *layer, const struct layer_pass *pass);

// State without a gradient: its start, the fold of an update, and its named parts, `first_byte` into the state.
void layer_initialize_state(const struct layer *layer, struct queue *queue, void *state);
void layer_fold(const struct layer *layer, const struct weir_fold *fold);
size_t layer_states(const struct layer *layer, struct weir_tensor states[LAYER_TENSORS]);

// For a head, after a forward that keeps its logits: one row of logits, `vocabulary` numbers on the device. `saved`
// is what that forward has saved.
const struct values *layer_logits(const struct layer *head, const void *saved, size_t row);

// The choices of a layer of experts after a forward, given what that has saved. They are the expert of each pair of a
// token and a choice, on the device, or -1 for rows that are no tokens. Other layers have none.
struct layer_choices {
    const int32_t *experts;
    size_t count;
};
struct layer_choices layer_choices(const struct layer *layer, const void *saved);

// Whether a layer is of experts, or a part of one that is cut. It has their matrices, or it chooses them and keeps
// their counts; one that is not cut does both.
static inline bool layer_is_of_experts(const struct layer *layer)
{
    return layer->shape.experts.router.experts > 0;
}

static inline bool layer_has_experts(const struct layer *layer)
{
    return layer->kind == &layer_experts || layer->kind == &layer_products;
}

static inline bool layer_chooses_experts(const struct layer *layer)
{
    return layer->kind == &layer_experts || layer->kind == &layer_router;
}

// Whether the runtime may exchange what the layer reads, in front of it: vectors of tables, or rows of experts.
static inline bool layer_takes_exchanged(const struct layer *layer)
{
    return layer->kind == &layer_exchange || layer->kind == &layer_products || layer->kind == &layer_combine;
}

// The name of the layer whose experts these are: "block1.experts" also for "block1.router".
void layer_experts_name(const struct layer *layer, char name[LAYER_NAME_SIZE]);

// What `router` and `products` hand on: the bytes at which rows begin in it, the room for them, and where the counts of
// all members begin. The rows of a member's experts are `most` at most.
struct carried_rows {
    uint64_t rows_at, rows_bytes, counts_at, row_bytes, most;
};
struct carried_rows layer_carried_rows(const struct layer *layer);

// --- parameters --------------------------------------------------------------------

enum tensor_start { START_ZERO, START_ONE, START_NORMAL };
// The part of a tensor that a shard has: all of it, or a number of its rows, or of its columns.
// A piece is some of its rows and columns. With experts it is the rows of those that a member alone has. With copies it
// is the rows of those that all members have, so it is the same on all of them.
enum tensor_split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS, SPLIT_PIECE, SPLIT_EXPERTS, SPLIT_COPIES };

// Rows first_row, first_row + row_step, .. of a tensor, and the columns from first_column on.
struct tensor_piece {
    size_t first_row, row_step, first_column, whole_columns;
};

struct tensor {
    const char *name;  // "qkv.weight"
    size_t rows, columns;
    size_t padding_rows, padding_columns;  // how many of these, at the end, are padding: zeros without a gradient
    size_t padding_of_whole;  // for a shard whose columns are split: padding columns of the whole tensor
    uint64_t offset;  // of its first number among the layer's parameters
    bool adjoins;     // it begins where the one before it ends, not at a multiple of 256 bytes
    enum tensor_start start;
    float deviation;  // for START_NORMAL
    bool decays;      // weight decay: true for matrices, not for biases and norms
    enum tensor_split split;
    size_t parts;     // for SPLIT_COLUMNS: how many tensors are side by side, each of them split: Q, K and V
    struct tensor_piece piece;  // for SPLIT_PIECE
    size_t number;    // among the tensors of the whole layer
};

// Lists the layer's tensors in the order of their offsets. Returns their number.
size_t layer_tensors(const struct layer *layer, struct tensor tensors[LAYER_TENSORS]);
uint64_t layer_parameter_count(const struct layer *layer);  // without padding

// Writes the initial parameters. They depend on the seed and the layer's index in its model, but not on which process
// initializes which layers, nor on padding. Gaps between tensors are 0.
void layer_initialize(const struct layer *layer, struct queue *queue, void *parameters, uint64_t seed);

#endif
