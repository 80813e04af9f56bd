// The structure of a transformer, read from Hugging Face's config.json. It is enough to count its parameters and to
// know every product in its training.
#ifndef PROFILER_ESTIMATE_TRANSFORMER_H
#define PROFILER_ESTIMATE_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

enum { TRANSFORMER_MOST_LAYERS = 4096, TRANSFORMER_MOST_PREDICTED = 16, TRANSFORMER_NAME = 64 };

// What a layer computes besides attention, or instead of it: a recurrence over the tokens, in chunks of the sequence.
// * RECURRENCE_MAMBA: a selective scan, element by element (Gu and Dao, 2312.00752).
// * RECURRENCE_MAMBA2: state-space duality (Dao and Gu, 2405.21060).
// * RECURRENCE_DELTA: the gated delta rule (Yang et al., 2412.06464).
// * RECURRENCE_LIGHTNING: linear attention with a decay of each head (Qin et al., 2405.17381).
// * RECURRENCE_CONVOLUTION: none, but a short convolution with a gate before it and one behind it (LFM2).
enum recurrence {
    RECURRENCE_NONE, RECURRENCE_MAMBA, RECURRENCE_MAMBA2, RECURRENCE_DELTA, RECURRENCE_LIGHTNING,
    RECURRENCE_CONVOLUTION
};

// What a layer is if not attention and an MLP, or experts by `dense_layers` and `expert_every`.
enum layer_mark { LAYER_RECURRENT = 1, LAYER_WITHOUT_MIXER = 2, LAYER_WITHOUT_MLP = 4, LAYER_SPARSE = 8 };

struct transformer {
    char name[TRANSFORMER_NAME];  // the family, as in the file, such as "llama"
    uint64_t layers, hidden, heads, kv_heads, head_size;
    uint64_t ffn;         // of dense layers
    uint64_t vocabulary;
    uint64_t positions;   // learned positions; 0: none
    uint64_t longest;     // longest sequence that the file states, or 0
    uint64_t window;      // number of tokens that attention sees; 0: all before
    uint64_t local_window;  // the same for local layers; 0: there are none
    // Windows are chunks: a token sees those before it in its own chunk, not a fixed number before it
    bool has_chunks;
    bool is_local[TRANSFORMER_MOST_LAYERS];
    bool is_gated;        // the MLP has a gate beside the product up
    bool is_tied;         // the head reads the embedding's table
    bool has_layer_norm;  // with a bias; else RMS norms
    bool centered_norms;  // layer norms without a bias
    bool bare_norms;      // norms without parameters
    bool embedding_norm;  // the embedding's output passes a norm
    bool is_parallel;     // a block's MLP reads what its attention reads, and both are added at once
    bool shares_norm;     // and it is behind the same norm
    bool head_bias;       // the head adds a bias to the logits
    bool head_transform;  // the head has a product, as wide as the hidden size, before its norm
    bool plain_transform;  // that product has no bias
    bool head_norm;       // the blocks' output passes a norm of its own before that
    bool reads_mean;      // the head reads the mean of all tokens beside the first one
    bool scales_layers;   // what is added to the residual is scaled by a vector
    bool is_bidirectional;  // each token attends to all others
    // Encoder and decoder: so many of the layers are an encoder's, and attend to all tokens. The others are a
    // decoder's. They attend to their own tokens before, and then to the encoder's output; 0: there is no such encoder
    uint64_t encoder_layers;
    uint64_t position_buckets;  // of distances, with a number for each head, of the encoder and of the decoder
    bool buckets_each;    // or of each layer
    uint64_t token_types;  // vectors that are added to the embedding by the type of a token
    uint64_t patch_numbers;  // of a patch of a picture; 0: tokens are words
    uint64_t patch_tokens;   // of a picture beside its patches, such as one for its class
    bool has_mask_token;     // a vector stands for patches that are hidden
    bool has_alibi;       // scores have a slope with the distance of tokens
    uint64_t activation_parameters;  // of each MLP
    bool norms_twice;     // what is added to the residual has a norm, too
    bool caps_logits;     // logits are kept between two bounds by tanh
    bool drops;           // what is added to the residual passes a dropout
    bool drops_scores;    // the softmax of attention passes a dropout, too
    bool is_rotary;
    uint64_t rotary_base;  // 0: not in the file
    char activation[24];   // as in the file, such as "silu"; or empty
    bool attention_biases, output_bias, mlp_biases;
    bool normed_heads;    // queries and keys have norms
    bool norms_across;    // one norm across all heads together; else one of each head's size
    bool has_sinks;       // each head has a number in its softmax beside the scores
    // Experts: every `expert_every`th layer from `dense_layers` on has them instead of an MLP.
    uint64_t experts, chosen, expert_ffn, shared_ffn, dense_layers, expert_every;
    // A token's experts are of `chosen_groups` of the router's groups (node-limited routing); 0: of any
    uint64_t router_groups, chosen_groups;
    // The router also chooses among so many that hand a token on as it is. `chosen` are without these, in the mean
    uint64_t idle_experts;
    uint64_t expert_hidden;  // experts read and write so many numbers of a token, between two products; 0: hidden
    bool gated_shared;     // the shared expert is weighted by a product of its own
    bool corrected_router;  // a bias per expert
    bool buffered_correction;  // which is a buffer and not a parameter
    uint64_t predicted;     // layers after the blocks that predict tokens further on (multi-token prediction)
    bool biased_experts;    // every product of the experts has a bias, the router's as well
    // Latent attention: queries and keys have nope + rope numbers; values have a size of their own.
    bool is_latent;
    uint64_t query_rank, value_rank, nope_size, rope_size, value_size;
    // Sparse attention: an indexer of as many heads chooses the tokens that a token attends to; 0: it attends to all.
    uint64_t index_heads, index_size, index_chosen;
    bool gates_attention;  // the output of attention is weighted by a product as wide as the queries
    uint8_t marks[TRANSFORMER_MOST_LAYERS];  // flags of enum layer_mark
    bool has_lone_layers;  // some are a mixer, or an MLP or experts, alone
    bool marks_experts;    // layers marked as sparse have experts, and no others
    // Recurrent layers. A head has a state of scan_size x scan_state numbers. Groups of heads share what is written to
    // the state and read from it.
    enum recurrence recurrence;
    uint64_t scan_heads, scan_size, scan_groups, scan_state;
    uint64_t scan_kernel;  // of the convolution in front of it, in tokens; 0: there is none
    uint64_t scan_chunk;   // tokens
    // The rank of the product that makes step sizes; 0: they are computed directly. With the delta rule, that of the
    // products that make a decay for each channel and the gate of the output
    uint64_t scan_rank;
    bool scan_conv_bias, scan_bias, scan_norm;  // of the convolution, of the products, of the output
    bool side_by_side;     // recurrent layers have attention, too, behind the same norm
};

// False with an error that names the field: "config.json: num_hidden_layers: is missing".
bool transformer_load(const char *path, struct transformer *transformer, struct error *error);
bool transformer_read(const char *text, size_t length, const char *name, struct transformer *transformer,
                      struct error *error);
// The same. Also adds to `notes` a line for each thing that the user should know of the file. These are sizes that it
// leaves to the defaults of its class, parts that are not estimated, and keys that nothing reads.
bool transformer_load_noting(const char *path, struct transformer *transformer, struct text *notes,
                             struct error *error);

// Adds the names of all families: "llama, mistral, .."
void transformer_names(struct text *text);

bool transformer_has_experts(const struct transformer *transformer, uint64_t layer);
bool transformer_is_local(const struct transformer *transformer, uint64_t layer);  // its attention sees local_window
bool transformer_is_encoding(const struct transformer *transformer, uint64_t layer);  // it is of the encoder
bool transformer_is(const struct transformer *transformer, uint64_t layer, enum layer_mark mark);

// Whether the model has a position for each token of a sequence of this length. Length 0 means unknown, and is
// refused.
bool transformer_takes(const struct transformer *transformer, uint64_t sequence, struct error *error);

// What a recurrent layer's first product makes of a token, and how much of it the convolution reads.
uint64_t transformer_scan_width(const struct transformer *transformer);
uint64_t transformer_convolved_width(const struct transformer *transformer);

// The number of parameters of each part, and of the whole: those that transformers counts.
uint64_t transformer_norm_parameters(const struct transformer *transformer);  // of one layer's norm
uint64_t transformer_second_norm_parameters(const struct transformer *transformer);  // of that of MLPs and experts
uint64_t transformer_embedding_parameters(const struct transformer *transformer);
uint64_t transformer_attention_parameters(const struct transformer *transformer);  // including the norm before it
uint64_t transformer_own_buckets(const struct transformer *transformer);  // of distances, if each attention has its own
// Between encoder and decoder: the encoder's last norm, and numbers of the decoder's distances.
uint64_t transformer_crossing_parameters(const struct transformer *transformer);
uint64_t transformer_recurrent_parameters(const struct transformer *transformer);  // likewise, with attention beside it
uint64_t transformer_mlp_parameters(const struct transformer *transformer);        // likewise
uint64_t transformer_experts_parameters(const struct transformer *transformer);    // of all experts, and nothing else
// The rest: norm, router, shared experts
uint64_t transformer_router_parameters(const struct transformer *transformer);
uint64_t transformer_head_parameters(const struct transformer *transformer);       // none of its own if it is tied
uint64_t transformer_parameters(const struct transformer *transformer);
// Files of models that predict tokens further on hold table and head once more for each such layer.
uint64_t transformer_file_parameters(const struct transformer *transformer);

#endif
