// What a transformer is made of, by Hugging Face's config.json: enough of it to count its parameters and to know every
// product that its training takes.
#ifndef PROFILER_ESTIMATE_TRANSFORMER_H
#define PROFILER_ESTIMATE_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { TRANSFORMER_MOST_LAYERS = 4096, TRANSFORMER_MOST_PREDICTED = 16, TRANSFORMER_NAME = 64 };

struct transformer {
    char name[TRANSFORMER_NAME];  // the family, as the file says: "llama"
    uint64_t layers, hidden, heads, kv_heads, head_size;
    uint64_t ffn;         // of the dense layers
    uint64_t vocabulary;
    uint64_t positions;   // learned ones; 0: none
    uint64_t longest;     // sequence that the file says, or 0
    uint64_t window;      // tokens that attention sees; 0: all that came before
    uint64_t local_window;  // that of local layers sees; 0: there are none
    bool has_chunks;        // of its own chunk of so many a token sees those before it, not so many before it
    bool is_local[TRANSFORMER_MOST_LAYERS];
    bool is_gated;        // the MLP has a gate beside its way up
    bool is_tied;         // the head reads the embedding's table
    bool has_layer_norm;  // with a bias; else RMS norms
    bool norms_twice;     // what is added to the residual has a norm, too
    bool caps_logits;     // between two bounds, by tanh
    bool drops;           // what it adds to the residual passes a dropout
    bool drops_scores;    // and what softmax gives in attention
    bool is_rotary;
    uint64_t rotary_base;  // 0: the file does not say it
    char activation[24];   // as the file says: "silu"; or empty
    bool attention_biases, output_bias, mlp_biases;
    bool normed_heads;    // queries and keys have norms
    bool norms_across;    // of all heads together; else each of a head's size
    bool has_sinks;       // a number of each head in its softmax, beside the scores
    // Experts: every `expert_every`th layer from `dense_layers` on has them instead of an MLP.
    uint64_t experts, chosen, expert_ffn, shared_ffn, dense_layers, expert_every;
    bool gated_shared;     // the shared expert is weighed by a product of its own
    bool corrected_router;  // a bias per expert
    uint64_t predicted;     // layers behind the blocks that predict tokens further on (multi-token prediction)
    bool biased_experts;    // of every product, the router's as well
    // Latent attention: queries and keys of nope + rope, values of their own size.
    bool is_latent;
    uint64_t query_rank, value_rank, nope_size, rope_size, value_size;
};

// False with a sentence that names the field: "config.json: num_hidden_layers: is missing".
bool transformer_load(const char *path, struct transformer *transformer, struct error *error);
bool transformer_read(const char *text, size_t length, const char *name, struct transformer *transformer,
                      struct error *error);

bool transformer_has_experts(const struct transformer *transformer, uint64_t layer);
bool transformer_is_local(const struct transformer *transformer, uint64_t layer);  // its attention sees local_window

// Whether a sequence of so many tokens has a position for each; 0 is of an unknown length, and refused.
bool transformer_takes(const struct transformer *transformer, uint64_t sequence, struct error *error);

// Numbers that are trained, of each part and of all of it.
uint64_t transformer_norm_parameters(const struct transformer *transformer);  // of a layer's own
uint64_t transformer_embedding_parameters(const struct transformer *transformer);
uint64_t transformer_attention_parameters(const struct transformer *transformer);  // with the norm in front
uint64_t transformer_mlp_parameters(const struct transformer *transformer);        // likewise
uint64_t transformer_experts_parameters(const struct transformer *transformer);    // of all experts, and nothing else
uint64_t transformer_router_parameters(const struct transformer *transformer);  // beside: norm, router, shared ones
// Of one that predicts tokens further on, without the table and the head that it borrows (DeepSeek-AI, arXiv 2412.19437,
// 2.2): norms of what it reads and gives, a product of both, and a block as the last.
uint64_t transformer_predicted_parameters(const struct transformer *transformer);
uint64_t transformer_head_parameters(const struct transformer *transformer);       // none of its own where it is tied
uint64_t transformer_parameters(const struct transformer *transformer);

#endif
