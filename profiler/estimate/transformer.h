// The structure of a transformer, read from Hugging Face's config.json. It is enough to count its parameters and to
// know every product in its training.
#ifndef PROFILER_ESTIMATE_TRANSFORMER_H
#define PROFILER_ESTIMATE_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { TRANSFORMER_MOST_LAYERS = 4096, TRANSFORMER_MOST_PREDICTED = 16, TRANSFORMER_NAME = 64 };

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
    bool gated_shared;     // the shared expert is weighted by a product of its own
    bool corrected_router;  // a bias per expert
    uint64_t predicted;     // layers after the blocks that predict tokens further on (multi-token prediction)
    bool biased_experts;    // every product of the experts has a bias, the router's as well
    // Latent attention: queries and keys have nope + rope numbers; values have a size of their own.
    bool is_latent;
    uint64_t query_rank, value_rank, nope_size, rope_size, value_size;
};

// False with an error that names the field: "config.json: num_hidden_layers: is missing".
bool transformer_load(const char *path, struct transformer *transformer, struct error *error);
bool transformer_read(const char *text, size_t length, const char *name, struct transformer *transformer,
                      struct error *error);

bool transformer_has_experts(const struct transformer *transformer, uint64_t layer);
bool transformer_is_local(const struct transformer *transformer, uint64_t layer);  // its attention sees local_window

// Whether the model has a position for each token of a sequence of this length. Length 0 means unknown, and is
// refused.
bool transformer_takes(const struct transformer *transformer, uint64_t sequence, struct error *error);

// The number of trained parameters of each part, and of the whole.
uint64_t transformer_norm_parameters(const struct transformer *transformer);  // of one layer's norm
uint64_t transformer_embedding_parameters(const struct transformer *transformer);
uint64_t transformer_attention_parameters(const struct transformer *transformer);  // including the norm before it
uint64_t transformer_mlp_parameters(const struct transformer *transformer);        // likewise
uint64_t transformer_experts_parameters(const struct transformer *transformer);    // of all experts, and nothing else
// The rest: norm, router, shared experts
uint64_t transformer_router_parameters(const struct transformer *transformer);
// A layer that predicts tokens further on has norms of its input and output, a product of both, and a block like the
// last. The table and the head that it borrows are not counted (DeepSeek-AI, arXiv 2412.19437, 2.2).
uint64_t transformer_predicted_parameters(const struct transformer *transformer);
uint64_t transformer_head_parameters(const struct transformer *transformer);       // none of its own if it is tied
uint64_t transformer_parameters(const struct transformer *transformer);

#endif
