// A model: layers in an order in which each comes behind those that it reads.
//
//     embedding  block0.attention  block0.mlp  block1.attention  ..  head
//
//     embedding --> block0 --> block1 --.      mlp-unet,blocks=2: each block on the
//         |            |                |      way up ends in a sum with the input of
//     .- sum <- block3 <- sum <- block2 <      the block that mirrors it
//     '--> head
//
// The built-in models are of three families. Those of texts read bytes, or tokens of a larger vocabulary, and predict
// the next one. Those of pictures say what is on them. Those of clicks read numbers and ids, and say how likely a yes
// is. Each has default sizes, any of which may be changed.
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "common/error.h"
#include "models/layer.h"

enum model_family { FAMILY_TEXT, FAMILY_PICTURES, FAMILY_CLICKS };

// What a ResNet begins with: 7 by 7 pixels with stride 2 and a pool; or, for small pictures, 3 by 3 with stride 1 or 2
// and no pool.
enum stem { STEM_OWN, STEM_LARGE, STEM_SMALL, STEM_SMALL_HALVING };

// Sizes of models of clicks. A list ends where a 0 is.
enum { CLICK_LAYERS = 9 };
struct click_sizes {
    size_t numbers;      // of a sample
    bool has_numbers;    // they were asked for, and may be 0
    size_t slots;        // each with a table
    size_t columns;      // of a table
    size_t ids;          // of a slot of one sample, at most
    size_t bottom[CLICK_LAYERS], top[CLICK_LAYERS];  // widths of the MLPs, without the last layer of each
    size_t cross, rank;  // crosses in place of the interaction, and the width of what is between their two products
    bool is_mean;        // vectors of a slot are averaged, not summed
    bool is_weighted;    // ids have weights
    uint32_t rows[LAYER_TABLES];  // of each slot's table
    size_t row_count;    // 1: all tables have as many
};

// Sizes of the experts of a GPT. What is not asked for is the model's default.
struct expert_sizes {
    size_t experts, top;          // and how many of them a token takes
    size_t inner;                 // width inside of one; 0: the products have the operations of a dense MLP
    size_t shared;                // how many such widths the shared expert has
    enum router_kind router;
    bool has_router, has_capacity, has_auxiliary, has_z;
    bool is_swiglu;
    double capacity;              // 0: all come (dropless)
    float auxiliary, z;
    size_t groups, best_groups;   // of deepseek, and likewise:
    float scale, speed;           // of the gates; of the bias
};

struct model_sizes {  // 0: the model's default
    size_t micro_batch;  // number of sequences, of pictures, or of samples
    size_t sequence;     // for pictures and clicks the targets of one: a label, or a class per pixel
    size_t width;
    size_t blocks;
    size_t heads;
    struct attention_pattern pattern;  // of a GPT; a window of 0 is none
    struct expert_sizes experts;       // of one with experts
    float dropout;
    bool has_dropout;    // it was asked for, and may be 0 where 0.5 is usual
    // only for pictures:
    size_t pixels;       // height and width
    size_t channels;     // of a pixel
    size_t classes;
    float smoothing;     // of labels
    enum stem stem;
    bool unfused;        // a batch norm, a sum and a ReLU are layers of their own
    struct click_sizes clicks;
    enum precision precision;  // of the device that the model is to run on
    enum tying { TYING_OWN, TYING_TIED, TYING_UNTIED } tying;  // head's words: by default, the embedding's, its own
    bool has_exchange;  // layers are cut where devices exchange: vectors of tables, or rows of experts
    bool padded;  // words padded to a multiple of 128, for the tensor cores of GPUs; no token names the added ones
};

struct model {
    const char *name;
    enum model_family family;
    struct model_sizes sizes;
    size_t vocabulary;  // of a text: tokens are below it
    size_t padding;  // words added behind the vocabulary
    bool tied;  // the last layer reads the first one's words
    size_t layer_count;
    struct layer layers[];
};

// Makes a model by its name (model_kinds()). NULL with the reason if there is no such model, or if its sizes do not fit
// together. model_free() frees it.
struct model *model_create(const char *name, const struct model_sizes *sizes, struct error *error);
void model_free(struct model *model);

const char *router_name(enum router_kind kind);  // "mixtral"

struct model_kind {
    const char *name;
    const char *sentence;  // what it is
    struct model_sizes sizes;
    size_t vocabulary;     // 0: it is of pictures or of clicks
};
static inline enum model_family model_kind_family(const struct model_kind *kind)
{
    return kind->vocabulary > 0 ? FAMILY_TEXT : kind->sizes.pixels > 0 ? FAMILY_PICTURES : FAMILY_CLICKS;
}

// The built-in models; `count` of them.
const struct model_kind *model_kinds(size_t *count);

// A part of the data that the model reads: of each sample `sizes`, up to the first that is 0. A label has none.
struct model_field {
    const char *name, *type;  // "pixels", "u8"
    size_t sizes[3];
    size_t classes;           // for labels: they are below it
};
enum { MODEL_FIELDS = 3, MODEL_FIELD_SIZES = 3 };
// Returns their number.
size_t model_fields(const struct model *model, struct model_field fields[MODEL_FIELDS]);

// The first layer of `a` that does not compute what that of `b` does with the same parameters; NULL: all do. The
// micro-batch and the sequence's length may differ, and so may dropout and smoothing, which only training has.
const struct layer *model_differs(const struct model *a, const struct model *b);

uint64_t model_parameter_count(const struct model *model);  // without padding, like flops
uint64_t model_flops(const struct model *model);            // of a micro-batch's forward
uint64_t model_parameter_bytes(const struct model *model);  // of all layers, one after the other

#endif
