#include "profiler/estimate/transformer_families.h"

#include <stdio.h>
#include <string.h>

#include "common/alike.h"
#include "profiler/estimate/decoder_families.h"
#include "profiler/estimate/encoder_families.h"
#include "profiler/estimate/expert_families.h"
#include "profiler/estimate/hybrid_families.h"

// A model type, how its fields are read, and what its class in transformers 5.24 gives those that are left out. What
// is false, null or 0 there is not listed.
static const struct family {
    const char *name;
    void (*read)(struct config_fields *fields, struct transformer *model);
    const char *defaults;
} families[] = {
    { "llama", read_llama,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000" },
    { "mistral", read_mistral,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 32000 sliding_window 4096" },
    { "ministral", read_ministral,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 32000 sliding_window 4096" },
    { "ministral3", read_mistral,
      "num_hidden_layers 34 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 14336 vocab_size 131072" },
    { "qwen2", read_qwen2,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 32 intermediate_size "
      "22016 vocab_size 151936 sliding_window 4096" },
    { "qwen2_vl_text", read_qwen2,
      "num_hidden_layers 80 hidden_size 8192 num_attention_heads 64 num_key_value_heads 8 intermediate_size "
      "29568 vocab_size 152064 sliding_window 4096" },
    { "qwen2_5_vl_text", read_qwen2,
      "num_hidden_layers 80 hidden_size 8192 num_attention_heads 64 num_key_value_heads 8 intermediate_size "
      "29568 vocab_size 152064 sliding_window 4096" },
    { "qwen3", read_qwen3,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 32 head_dim 128 "
      "intermediate_size 22016 vocab_size 151936 sliding_window 4096" },
    { "qwen3_vl_text", read_qwen3,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 32 head_dim 128 "
      "intermediate_size 22016 vocab_size 151936" },
    { "gpt2", read_gpt2,
      "n_layer 12 n_embd 768 n_head 12 vocab_size 50257 n_positions 1024 tie_word_embeddings 1 attn_pdrop 0.1 "
      "resid_pdrop 0.1" },
    { "gpt_bigcode", read_gpt_bigcode,
      "n_layer 12 n_embd 768 n_head 12 vocab_size 50257 n_positions 1024 tie_word_embeddings 1 multi_query 1 "
      "attn_pdrop 0.1 resid_pdrop 0.1" },
    { "gpt_neo", read_gpt_neo,
      "num_layers 24 hidden_size 2048 num_heads 16 vocab_size 50257 max_position_embeddings 2048 window_size "
      "256 tie_word_embeddings 1" },
    { "gpt_neox", read_gpt_neox,
      "num_hidden_layers 44 hidden_size 6144 num_attention_heads 64 intermediate_size 24576 vocab_size 50432 "
      "attention_bias 1" },
    { "gptj", read_gptj,
      "n_layer 28 n_embd 4096 n_head 16 vocab_size 50400" },
    { "codegen", read_gptj,
      "n_layer 28 n_embd 4096 n_head 16 vocab_size 50400" },
    { "bloom", read_bloom,
      "n_layer 2 hidden_size 64 n_head 8 vocab_size 250880 tie_word_embeddings 1" },
    { "falcon", read_falcon,
      "num_hidden_layers 32 hidden_size 4544 num_attention_heads 71 vocab_size 65024 tie_word_embeddings 1 "
      "multi_query 1 parallel_attn 1" },
    { "mpt", read_mpt,
      "n_layers 24 d_model 2048 n_heads 16 expansion_ratio 4 vocab_size 50368 tie_word_embeddings 1" },
    { "opt", read_opt,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 ffn_dim 3072 vocab_size 50272 "
      "max_position_embeddings 2048 tie_word_embeddings 1 enable_bias 1 do_layer_norm_before 1 dropout 0.1 "
      "activation_function relu" },
    { "phi", read_phi,
      "num_hidden_layers 24 hidden_size 2048 num_attention_heads 32 intermediate_size 8192 vocab_size 51200" },
    { "phi3", read_phi3,
      "num_hidden_layers 32 hidden_size 3072 num_attention_heads 32 intermediate_size 8192 vocab_size 32064" },
    { "starcoder2", read_starcoder2,
      "num_hidden_layers 30 hidden_size 3072 num_attention_heads 24 num_key_value_heads 2 intermediate_size "
      "12288 vocab_size 49152 tie_word_embeddings 1 use_bias 1" },
    { "gemma", read_gemma,
      "num_hidden_layers 28 hidden_size 3072 num_attention_heads 16 num_key_value_heads 16 head_dim 256 "
      "intermediate_size 24576 vocab_size 256000 tie_word_embeddings 1 hidden_act gelu_pytorch_tanh" },
    { "gemma2", read_gemma2,
      "num_hidden_layers 26 hidden_size 2304 num_attention_heads 8 num_key_value_heads 4 head_dim 256 "
      "intermediate_size 9216 vocab_size 256000 sliding_window 4096 tie_word_embeddings 1 "
      "final_logit_softcapping 30 hidden_activation gelu_pytorch_tanh" },
    { "gemma3_text", read_gemma3,
      "num_hidden_layers 26 hidden_size 2304 num_attention_heads 8 num_key_value_heads 4 head_dim 256 "
      "intermediate_size 9216 vocab_size 262208 sliding_window 4096 tie_word_embeddings 1 hidden_activation "
      "gelu_pytorch_tanh" },
    { "granite", read_llama,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000" },
    { "olmo", read_olmo,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 50304" },
    { "olmo2", read_olmo2,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 50304" },
    { "olmo3", read_olmo3,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 50304 "
      "sliding_window 4096" },
    { "exaone4", read_exaone4,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 32 intermediate_size "
      "16384 vocab_size 102400 sliding_window 4096 sliding_window_pattern 4" },
    { "glm", read_glm,
      "num_hidden_layers 40 hidden_size 4096 num_attention_heads 32 num_key_value_heads 2 head_dim 128 "
      "intermediate_size 13696 vocab_size 151552 attention_bias 1" },
    { "glm4", read_glm4,
      "num_hidden_layers 40 hidden_size 4096 num_attention_heads 32 num_key_value_heads 2 head_dim 128 "
      "intermediate_size 13696 vocab_size 151552 attention_bias 1" },
    { "glm4v_text", read_glm4,
      "num_hidden_layers 40 hidden_size 4096 num_attention_heads 32 num_key_value_heads 2 intermediate_size "
      "13696 attention_bias 1 vocab_size 151552" },
    { "smollm3", read_smollm3,
      "num_hidden_layers 36 hidden_size 2048 num_attention_heads 16 num_key_value_heads 4 intermediate_size "
      "11008 vocab_size 128256 tie_word_embeddings 1" },
    { "seed_oss", read_seed_oss,
      "num_hidden_layers 64 hidden_size 4096 num_attention_heads 80 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 27648 vocab_size 155136 attention_bias 1 attention_dropout 0.1 residual_dropout 0.1" },
    { "apertus", read_apertus,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 14336 vocab_size 131072 "
      "hidden_act xielu" },
    { "hunyuan_v1_dense", read_hunyuan,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 290943" },
    { "cohere", read_cohere,
      "num_hidden_layers 40 hidden_size 8192 num_attention_heads 64 intermediate_size 22528 vocab_size 256000 "
      "tie_word_embeddings 1" },
    { "cohere2", read_cohere2,
      "num_hidden_layers 40 hidden_size 8192 num_attention_heads 64 intermediate_size 22528 vocab_size 256000 "
      "sliding_window 4096 tie_word_embeddings 1" },
    { "stablelm", read_stablelm,
      "num_hidden_layers 32 hidden_size 2560 num_attention_heads 32 num_key_value_heads 32 intermediate_size "
      "6912 vocab_size 50304" },
    { "nemotron", read_nemotron,
      "num_hidden_layers 32 hidden_size 6144 num_attention_heads 48 intermediate_size 24576 vocab_size 256000 "
      "hidden_act relu2" },
    { "arcee", read_arcee,
      "num_hidden_layers 32 hidden_size 2560 num_attention_heads 32 intermediate_size 18432 vocab_size 32000 "
      "hidden_act relu2" },
    { "helium", read_helium,
      "num_hidden_layers 24 hidden_size 2560 num_attention_heads 20 num_key_value_heads 20 head_dim 128 "
      "intermediate_size 7040 vocab_size 48000" },
    { "internlm3", read_glm,
      "num_hidden_layers 48 hidden_size 4096 num_attention_heads 32 num_key_value_heads 2 head_dim 128 "
      "intermediate_size 10240 vocab_size 128512" },
    { "ernie4_5", read_ernie,
      "num_hidden_layers 18 hidden_size 1024 num_attention_heads 16 num_key_value_heads 2 head_dim 128 "
      "intermediate_size 3072 vocab_size 103424 tie_word_embeddings 1" },
    { "cwm", read_cwm,
      "num_hidden_layers 64 hidden_size 6144 num_attention_heads 48 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 21504 vocab_size 128256 sliding_window 8192" },
    { "exaone", read_llama,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 102400" },
    { "iquestcoder", read_llama,
      "num_hidden_layers 80 hidden_size 5120 num_attention_heads 40 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 27648 vocab_size 76800" },
    { "vaultgemma", read_vaultgemma,
      "num_hidden_layers 26 hidden_size 2304 num_attention_heads 8 num_key_value_heads 4 head_dim 256 "
      "intermediate_size 9216 vocab_size 256000 sliding_window 4096 tie_word_embeddings 1 "
      "final_logit_softcapping 30 hidden_activation gelu_pytorch_tanh" },
    { "hyperclovax", read_hyperclovax,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000 "
      "use_post_norm 1" },
    { "granite_swa", read_granite_swa,
      "num_hidden_layers 24 hidden_size 2560 num_attention_heads 20 num_key_value_heads 4 intermediate_size "
      "8192 vocab_size 100352 sliding_window 128 tie_word_embeddings 1" },
    { "nanochat", read_nanochat,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 6 intermediate_size 8192 vocab_size 50304 "
      "final_logit_softcapping 15 hidden_act relu2" },
    { "jais2", read_nemotron,
      "num_hidden_layers 32 hidden_size 3328 num_attention_heads 26 intermediate_size 26624 vocab_size 150272 "
      "attention_bias 1 mlp_bias 1 hidden_act relu2" },
    { "gpt-sw3", read_gpt2,
      "n_layer 12 n_embd 768 n_head 12 vocab_size 50257 n_positions 1024 tie_word_embeddings 1 attn_pdrop 0.1 "
      "resid_pdrop 0.1 activation_function gelu_new" },
    { "emu3_text_model", read_emu3,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 184622 attention_dropout 0.1" },
    { "youtu", read_youtu,
      "num_hidden_layers 32 hidden_size 2048 num_attention_heads 16 num_key_value_heads 16 intermediate_size "
      "6144 vocab_size 128256 tie_word_embeddings 1 q_lora_rank 1536 kv_lora_rank 512 qk_nope_head_dim 128 "
      "qk_rope_head_dim 64 v_head_dim 128" },
    { "minicpm3", read_minicpm3,
      "num_hidden_layers 62 hidden_size 2560 num_attention_heads 40 num_key_value_heads 40 intermediate_size "
      "6400 vocab_size 73448 tie_word_embeddings 1 q_lora_rank 768 kv_lora_rank 256 qk_nope_head_dim 64 "
      "qk_rope_head_dim 32" },
    { "mixtral", read_mixtral,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 32000 num_local_experts 8 num_experts_per_tok 2" },
    { "qwen2_moe", read_qwen2_moe,
      "num_hidden_layers 24 hidden_size 2048 num_attention_heads 16 num_key_value_heads 16 intermediate_size "
      "5632 vocab_size 151936 sliding_window 4096 qkv_bias 1 num_experts 60 num_experts_per_tok 4 "
      "moe_intermediate_size 1408 shared_expert_intermediate_size 5632" },
    { "qwen3_moe", read_qwen3_moe,
      "num_hidden_layers 24 hidden_size 2048 num_attention_heads 32 num_key_value_heads 4 intermediate_size "
      "6144 vocab_size 151936 sliding_window 4096 num_experts 128 num_experts_per_tok 8 moe_intermediate_size "
      "768" },
    { "qwen3_vl_moe_text", read_qwen3_moe,
      "num_hidden_layers 24 hidden_size 2048 num_attention_heads 16 num_key_value_heads 16 intermediate_size "
      "5632 vocab_size 151936 tie_word_embeddings 1 num_experts 60 num_experts_per_tok 4 moe_intermediate_size "
      "1408" },
    { "deepseek_v2", read_deepseek,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 102400 "
      "n_routed_experts 64 moe_intermediate_size 1407 n_shared_experts 2 q_lora_rank 1536 kv_lora_rank 512 "
      "qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128" },
    { "deepseek_v3", read_deepseek,
      "num_hidden_layers 61 hidden_size 7168 num_attention_heads 128 num_key_value_heads 128 intermediate_size "
      "18432 vocab_size 129280 n_routed_experts 256 num_experts_per_tok 8 moe_intermediate_size 2048 "
      "n_shared_experts 1 first_k_dense_replace 3 q_lora_rank 1536 kv_lora_rank 512 qk_nope_head_dim 128 "
      "qk_rope_head_dim 64 v_head_dim 128" },
    { "kimi_k2", read_deepseek,
      "num_hidden_layers 61 hidden_size 7168 num_attention_heads 128 num_key_value_heads 128 intermediate_size "
      "18432 vocab_size 129280 n_routed_experts 256 num_experts_per_tok 8 moe_intermediate_size 2048 "
      "n_shared_experts 1 first_k_dense_replace 3 q_lora_rank 1536 kv_lora_rank 512 qk_nope_head_dim 128 "
      "qk_rope_head_dim 64 v_head_dim 128" },
    { "deepseek_v32", read_deepseek_sparse,
      "num_hidden_layers 61 hidden_size 7168 num_attention_heads 128 num_key_value_heads 128 head_dim 64 "
      "intermediate_size 18432 vocab_size 129280 n_routed_experts 256 num_experts_per_tok 8 "
      "moe_intermediate_size 2048 n_shared_experts 1 first_k_dense_replace 3 q_lora_rank 1536 kv_lora_rank 512 "
      "qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128 index_n_heads 64 index_head_dim 128 index_topk "
      "2048" },
    { "glm_moe_dsa", read_deepseek_sparse,
      "num_hidden_layers 78 hidden_size 6144 num_attention_heads 64 num_key_value_heads 64 head_dim 64 "
      "intermediate_size 12288 vocab_size 154880 n_routed_experts 256 num_experts_per_tok 8 "
      "moe_intermediate_size 2048 n_shared_experts 1 first_k_dense_replace 3 q_lora_rank 2048 kv_lora_rank 512 "
      "qk_nope_head_dim 192 qk_rope_head_dim 64 v_head_dim 256 index_n_heads 32 index_head_dim 128 index_topk "
      "2048" },
    { "gpt_oss", read_gpt_oss,
      "num_hidden_layers 36 hidden_size 2880 num_attention_heads 64 num_key_value_heads 8 head_dim 64 "
      "intermediate_size 2880 vocab_size 201088 sliding_window 128 attention_bias 1 num_local_experts 128 "
      "num_experts_per_tok 4" },
    { "glm4_moe", read_glm4_moe,
      "num_hidden_layers 46 hidden_size 4096 num_attention_heads 96 num_key_value_heads 8 intermediate_size "
      "10944 vocab_size 151552 n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 1408 "
      "n_shared_experts 1 first_k_dense_replace 1" },
    { "glm4v_moe_text", read_glm4v_moe,
      "num_hidden_layers 46 hidden_size 4096 num_attention_heads 96 num_key_value_heads 8 intermediate_size "
      "10944 vocab_size 151424 attention_bias 1 n_routed_experts 128 num_experts_per_tok 8 "
      "moe_intermediate_size 1408 n_shared_experts 1 first_k_dense_replace 1" },
    { "glm4_moe_lite", read_glm4_moe_lite,
      "num_hidden_layers 47 hidden_size 2048 num_attention_heads 20 num_key_value_heads 20 intermediate_size "
      "10240 vocab_size 154880 n_routed_experts 64 num_experts_per_tok 4 moe_intermediate_size 1536 "
      "n_shared_experts 1 q_lora_rank 768 kv_lora_rank 512 qk_nope_head_dim 192 qk_rope_head_dim 64 v_head_dim "
      "256" },
    { "llama4_text", read_llama4,
      "num_hidden_layers 48 hidden_size 5120 num_attention_heads 40 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 8192 intermediate_size_mlp 16384 vocab_size 202048 num_local_experts 16 "
      "num_experts_per_tok 1" },
    { "olmoe", read_olmoe,
      "num_hidden_layers 16 hidden_size 2048 num_attention_heads 16 intermediate_size 2048 vocab_size 50304 "
      "num_experts 64 num_experts_per_tok 8" },
    { "granitemoe", read_granite_experts,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000 "
      "num_local_experts 8 num_experts_per_tok 2" },
    { "granitemoeshared", read_granite_experts,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000 "
      "num_local_experts 8 num_experts_per_tok 2" },
    { "phimoe", read_phimoe,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "6400 vocab_size 32064 num_local_experts 16 num_experts_per_tok 2" },
    { "minimax_m2", read_minimax_m2,
      "num_hidden_layers 62 hidden_size 3072 num_attention_heads 48 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 1536 vocab_size 200064 num_local_experts 256 num_experts_per_tok 8" },
    { "dots1", read_dots1,
      "num_hidden_layers 62 hidden_size 4608 num_attention_heads 32 num_key_value_heads 32 intermediate_size "
      "10944 vocab_size 152064 sliding_window 4096 moe_intermediate_size 1408" },
    { "ernie4_5_moe", read_ernie_moe,
      "num_hidden_layers 28 hidden_size 2560 num_attention_heads 20 num_key_value_heads 4 intermediate_size "
      "12288 vocab_size 103424 tie_word_embeddings 1 moe_num_experts 64 moe_k 6 moe_intermediate_size 1536 "
      "moe_num_shared_experts 2 moe_layer_start_index 1" },
    { "dbrx", read_dbrx,
      "n_layers 24 d_model 2048 n_heads 16 vocab_size 32000" },
    { "hunyuan_v1_moe", read_hunyuan_moe,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 290943" },
    { "flex_olmo", read_olmoe,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 100352 "
      "num_experts 7 num_experts_per_tok 5" },
    { "granitemoe_swa", read_granitemoe_swa,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000 "
      "sliding_window 128 num_local_experts 8 num_experts_per_tok 2" },
    { "mellum", read_mellum,
      "num_hidden_layers 28 hidden_size 2304 num_attention_heads 32 num_key_value_heads 4 head_dim 128 "
      "intermediate_size 7168 vocab_size 98304 sliding_window 1024 num_local_experts 64 num_experts_per_tok 8 "
      "moe_intermediate_size 896" },
    { "sarvam_mla", read_sarvam_mla,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 64 intermediate_size 16384 vocab_size 262144 "
      "n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 2048 n_shared_experts 1 "
      "first_k_dense_replace 1 kv_lora_rank 512 qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128" },
    { "sarvam_moe", read_sarvam_moe,
      "num_hidden_layers 19 hidden_size 4096 num_attention_heads 64 num_key_value_heads 4 head_dim 64 "
      "intermediate_size 8192 vocab_size 262144 use_qk_norm 1 n_routed_experts 128 num_experts_per_tok 6 "
      "moe_intermediate_size 1024 n_shared_experts 1 first_k_dense_replace 1" },
    { "solar_open", read_solar_open,
      "num_hidden_layers 48 hidden_size 4096 num_attention_heads 64 num_key_value_heads 8 head_dim 128 "
      "vocab_size 196608 n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 1280 "
      "n_shared_experts 1" },
    { "exaone_moe", read_exaone_moe,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 32 intermediate_size "
      "16384 vocab_size 102400 sliding_window 4096 sliding_window_pattern 4 num_experts 64 num_experts_per_tok "
      "8 moe_intermediate_size 1024 num_shared_experts 1 first_k_dense_replace 1" },
    { "afmoe", read_afmoe,
      "num_hidden_layers 32 hidden_size 2048 num_attention_heads 16 head_dim 128 intermediate_size 6144 "
      "vocab_size 200192 sliding_window 1024 num_experts 64 num_experts_per_tok 6 moe_intermediate_size 1408 "
      "num_shared_experts 2 num_dense_layers 1" },
    { "aria_text", read_aria,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 4096 vocab_size 32000 "
      "moe_num_experts 8 moe_topk 2 moe_num_shared_experts 2" },
    { "hy_v3", read_hy_v3,
      "num_hidden_layers 80 hidden_size 4096 num_attention_heads 64 num_key_value_heads 8 head_dim 128 "
      "intermediate_size 13312 vocab_size 120832 num_experts 192 num_experts_per_tok 8 moe_intermediate_size "
      "1536 num_shared_experts 1" },
    { "longcat_flash", read_longcat_flash,
      "num_layers 28 hidden_size 6144 num_attention_heads 64 ffn_hidden_size 12288 vocab_size 131072 "
      "n_routed_experts 512 moe_topk 12 expert_ffn_hidden_size 2048 zero_expert_num 256 q_lora_rank 1536 "
      "kv_lora_rank 512 qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128" },
    { "nemotron_h", read_nemotron_h,
      "hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 head_dim 128 intermediate_size 21504 "
      "vocab_size 131072 n_routed_experts 8 num_experts_per_tok 2 moe_intermediate_size 7688 n_shared_experts 1 "
      "mamba_num_heads 128 mamba_head_dim 64 n_groups 8 ssm_state_size 128 conv_kernel 4 chunk_size 128 "
      "use_conv_bias 1 moe_shared_expert_intermediate_size 7688 mlp_hidden_act relu2" },
    { "granitemoehybrid", read_granite_hybrid,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 intermediate_size 11008 vocab_size 32000 "
      "num_local_experts 8 num_experts_per_tok 2 shared_intermediate_size 1024 mamba_n_heads 128 mamba_n_groups "
      "1 mamba_d_state 256 mamba_d_conv 4 mamba_chunk_size 256 mamba_conv_bias 1 mamba_expand 2" },
    { "bamba", read_bamba,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 128000 mamba_n_heads 128 mamba_n_groups 1 mamba_d_state 256 mamba_d_conv 4 "
      "mamba_chunk_size 256 mamba_conv_bias 1 mamba_expand 2" },
    { "falcon_h1", read_falcon_h1,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 128000 mamba_n_heads 128 mamba_n_groups 1 mamba_d_state 256 mamba_d_conv 4 "
      "mamba_chunk_size 256 mamba_conv_bias 1 mamba_expand 2 mamba_d_ssm 1024" },
    { "jamba", read_jamba,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 65536 num_experts 16 num_experts_per_tok 2 mamba_d_state 16 mamba_d_conv 4 "
      "mamba_conv_bias 1 mamba_expand 2" },
    { "qwen3_next", read_qwen3_next,
      "num_hidden_layers 48 hidden_size 2048 num_attention_heads 16 num_key_value_heads 2 head_dim 256 "
      "intermediate_size 5632 vocab_size 151936 num_experts 512 num_experts_per_tok 10 moe_intermediate_size "
      "512 shared_expert_intermediate_size 512 linear_num_value_heads 32 linear_value_head_dim 128 "
      "linear_num_key_heads 16 linear_key_head_dim 128 linear_conv_kernel_dim 4" },
    { "qwen3_5_text", read_qwen3_5,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 16 num_key_value_heads 4 head_dim 256 "
      "intermediate_size 12288 vocab_size 248320 linear_num_value_heads 32 linear_value_head_dim 128 "
      "linear_num_key_heads 16 linear_key_head_dim 128 linear_conv_kernel_dim 4" },
    { "qwen3_5_moe_text", read_qwen3_5_moe,
      "num_hidden_layers 40 hidden_size 2048 num_attention_heads 16 num_key_value_heads 2 head_dim 256 "
      "vocab_size 248320 num_experts 256 num_experts_per_tok 8 moe_intermediate_size 512 "
      "shared_expert_intermediate_size 512 linear_num_value_heads 32 linear_value_head_dim 128 "
      "linear_num_key_heads 16 linear_key_head_dim 128 linear_conv_kernel_dim 4" },
    { "minimax", read_minimax,
      "num_hidden_layers 32 hidden_size 4096 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "14336 vocab_size 32000 num_local_experts 8 num_experts_per_tok 2 block_size 256" },
    { "mamba2", read_mamba2,
      "num_hidden_layers 64 hidden_size 4096 num_heads 128 head_dim 64 vocab_size 32768 n_groups 8 state_size "
      "128 conv_kernel 4 chunk_size 256 use_conv_bias 1" },
    { "olmo_hybrid", read_olmo_hybrid,
      "num_hidden_layers 32 hidden_size 3840 num_attention_heads 30 intermediate_size 11008 vocab_size 100352 "
      "linear_conv_kernel_dim 4" },
    { "kimi_linear", read_kimi_linear,
      "num_hidden_layers 27 hidden_size 2304 num_attention_heads 32 num_key_value_heads 32 intermediate_size "
      "9216 vocab_size 163840 num_experts 256 num_experts_per_tok 8 moe_intermediate_size 1024 "
      "num_shared_experts 1 kv_lora_rank 512 qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128 "
      "linear_num_heads 32 linear_head_dim 128 linear_conv_kernel_dim 4" },
    { "lfm2", read_lfm2,
      "num_hidden_layers 32 hidden_size 2560 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "12288 vocab_size 65536 tie_word_embeddings 1 conv_L_cache 3" },
    { "lfm2_moe", read_lfm2_moe,
      "num_hidden_layers 32 hidden_size 2048 num_attention_heads 32 num_key_value_heads 8 intermediate_size "
      "7168 vocab_size 65536 tie_word_embeddings 1 num_experts 32 num_experts_per_tok 4 moe_intermediate_size "
      "1792 num_dense_layers 2 conv_L_cache 3" },
    { "mamba", read_mamba,
      "num_hidden_layers 32 hidden_size 768 vocab_size 50280 tie_word_embeddings 1 expand 2 state_size 16 "
      "conv_kernel 4 use_conv_bias 1" },
    { "falcon_mamba", read_mamba,
      "num_hidden_layers 32 hidden_size 768 vocab_size 50280 tie_word_embeddings 1 expand 2 state_size 16 "
      "conv_kernel 4 use_conv_bias 1" },
    { "bert", read_bert,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 30522 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "roberta", read_roberta,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 50265 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "xlm-roberta", read_roberta,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 30522 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "camembert", read_roberta,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 30522 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "data2vec-text", read_roberta,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 30522 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "xlm-roberta-xl", read_roberta,
      "num_hidden_layers 36 hidden_size 2560 num_attention_heads 32 intermediate_size 10240 vocab_size 250880 "
      "max_position_embeddings 514 type_vocab_size 1 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "roberta-prelayernorm", read_roberta_prelayernorm,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 50265 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "megatron-bert", read_bert,
      "num_hidden_layers 24 hidden_size 1024 num_attention_heads 16 intermediate_size 4096 vocab_size 29056 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "ernie", read_ernie_encoder,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 30522 "
      "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 task_type_vocab_size 3 "
      "hidden_dropout_prob 0.1 attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "distilbert", read_distilbert,
      "n_layers 6 dim 768 n_heads 12 hidden_dim 3072 vocab_size 30522 max_position_embeddings 512 "
      "tie_word_embeddings 1 dropout 0.1 attention_dropout 0.1 activation gelu" },
    { "eurobert", read_eurobert,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 vocab_size 128256" },
    { "modernbert", read_modernbert,
      "num_hidden_layers 22 hidden_size 768 num_attention_heads 12 intermediate_size 1152 vocab_size 50368 "
      "local_attention 128 tie_word_embeddings 1 decoder_bias 1 hidden_activation gelu" },
    { "modernbert-decoder", read_modernbert_decoder,
      "num_hidden_layers 22 hidden_size 768 num_attention_heads 12 intermediate_size 1152 vocab_size 50368 "
      "local_attention 128 tie_word_embeddings 1 decoder_bias 1 hidden_activation gelu" },
    { "t5", read_t5,
      "num_layers 6 d_model 512 d_kv 64 num_heads 8 d_ff 2048 vocab_size 32128 relative_attention_num_buckets 32 "
      "dropout_rate 0.1 feed_forward_proj relu tie_word_embeddings 1" },
    { "mt5", read_t5,
      "num_layers 8 d_model 512 d_kv 64 num_heads 6 d_ff 1024 vocab_size 250112 relative_attention_num_buckets 32 "
      "dropout_rate 0.1 feed_forward_proj gated-gelu tie_word_embeddings 1" },
    { "umt5", read_umt5,
      "num_layers 8 d_model 512 num_heads 6 d_ff 1024 d_kv 64 vocab_size 250112 tie_word_embeddings 1 "
      "relative_attention_num_buckets 32 dropout_rate 0.1 feed_forward_proj gated-gelu" },
    { "vit", read_vit,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 image_size 224 patch_size 16 "
      "num_channels 3 qkv_bias 1 hidden_act gelu" },
    { "vit_msn", read_vit,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 qkv_bias 1 "
      "image_size 224 patch_size 16 num_channels 3 hidden_act gelu" },
    { "deit", read_deit,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 qkv_bias 1 "
      "image_size 224 patch_size 16 num_channels 3 hidden_act gelu" },
    { "ijepa", read_ijepa,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 intermediate_size 3072 qkv_bias 1 "
      "image_size 224 patch_size 16 num_channels 3 hidden_act gelu" },
    { "dinov2", read_dinov2,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 qkv_bias 1 image_size 224 patch_size 14 "
      "num_channels 3 mlp_ratio 4 use_mask_token 1 hidden_act gelu" },
    { "dinov2_with_registers", read_dinov2,
      "num_hidden_layers 12 hidden_size 768 num_attention_heads 12 qkv_bias 1 image_size 224 patch_size 16 "
      "num_channels 3 mlp_ratio 4 num_register_tokens 4 hidden_act gelu" },
};
enum { FAMILIES = sizeof families / sizeof families[0] };

// Models that also see or hear, and the class of the text model within them. Whether the head reads the embedding's
// table is said beside the text model (with a default), within it, or by either, as the class has it.
static const struct wrapper {
    const char *name, *text;
    enum { TIED_BESIDE, TIED_WITHIN, TIED_BY_EITHER } tied;
    bool is_tied;
} wrappers[] = {
    { "gemma3", "gemma3_text", TIED_BESIDE, true },
    { "llava", "llama", TIED_BY_EITHER, false },
    { "llava_next", "llama", TIED_BESIDE, false },
    { "llava_next_video", "llama", TIED_BY_EITHER, false },
    { "llava_onevision", "qwen2", TIED_BY_EITHER, false },
    { "vipllava", "llama", TIED_BESIDE, false },
    { "video_llava", "llama", TIED_BESIDE, false },
    { "qwen2_vl", "qwen2_vl_text", TIED_BY_EITHER, false },
    { "qwen2_5_vl", "qwen2_5_vl_text", TIED_BY_EITHER, false },
    { "qwen3_vl", "qwen3_vl_text", TIED_BESIDE, false },
    { "qwen3_vl_moe", "qwen3_vl_moe_text", TIED_BESIDE, false },
    { "qwen3_5", "qwen3_5_text", TIED_WITHIN, false },
    { "qwen3_5_moe", "qwen3_5_moe_text", TIED_WITHIN, false },
    { "llama4", "llama4_text", TIED_WITHIN, false },
    { "mistral3", "mistral", TIED_BESIDE, true },
    { "idefics2", "mistral", TIED_BESIDE, false },
    { "idefics3", "llama", TIED_BESIDE, false },
    { "smolvlm", "llama", TIED_BESIDE, false },
    { "internvl", "qwen2", TIED_BESIDE, true },
    { "aya_vision", "cohere2", TIED_BESIDE, true },
    { "cohere2_vision", "cohere2", TIED_BESIDE, true },
    { "paligemma", "gemma", TIED_BESIDE, true },
    { "aria", "aria_text", TIED_BESIDE, false },
    { "emu3", "emu3_text_model", TIED_BESIDE, false },
    { "lfm2_vl", "lfm2", TIED_BESIDE, true },
    { "glm4v", "glm4v_text", TIED_BY_EITHER, false },
    { "glm4v_moe", "glm4v_moe_text", TIED_BESIDE, false },
};
enum { WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

static const struct wrapper *find_wrapper(const char *name)
{
    for (size_t i = 0; i < WRAPPERS; i++)
        if (strcmp(wrappers[i].name, name) == 0)
            return &wrappers[i];
    return NULL;
}

static const struct family *find_family(const char *name)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}

void transformer_names(struct text *text)
{
    for (size_t i = 0; i < FAMILIES; i++)
        text_add(text, "%s%s", i ? ", " : "", families[i].name);
    for (size_t i = 0; i < WRAPPERS; i++)
        text_add(text, ", %s", wrappers[i].name);
}

// --- a file ---------------------------------------------------------------------

static bool has_text_model(const struct json *root)
{
    struct json value;
    return json_find(root, "text_config", &value) && json_kind(&value) == JSON_OBJECT;
}

static void refuse_type(const struct json *root, const char *name)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; i < FAMILIES; i++)
        alike_try(&alike, name, families[i].name);
    for (size_t i = 0; i < WRAPPERS; i++)
        alike_try(&alike, name, wrappers[i].name);
    json_refuse_key(root, "model_type", "\"%.40s\" is none of those that are estimated (docs/estimate.md)%s", name,
                    alike_said(&alike, said));
}

// For a file without a model_type, the error says what the file is.
static void find_type(struct json *root)
{
    struct json value;
    if (json_kind(root) != JSON_OBJECT || json_find(root, "model_type", &value))
        return;
    if (has_text_model(root))
        json_refuse_key(root, "model_type", "is missing; its text_config, in a file of its own, may have one");
    else if (json_find(root, "format", &value) && json_kind(&value) == JSON_STRING)
        json_refuse_key(root, "model_type", "is missing: the file is a \"%.40s\", not the config.json of a Hugging Face"
                        " model", json_string(root, "format"));
    else
        json_refuse_key(root, "model_type", "is missing: every config.json of a Hugging Face model has it");
}

// The activation may have any name. A model without a known one computes as fast.
static void read_activation(struct config_fields *fields, struct transformer *model)
{
    char word[64];
    fields_word(fields, "mlp_hidden_act", word, sizeof word);  // beside that of other layers
    if (!word[0])
        fields_word(fields, "hidden_activation|hidden_act|activation_function|activation", word, sizeof word);
    snprintf(model->activation, sizeof model->activation, "%.*s", (int)sizeof model->activation - 1, word);
}

// The base of the rotation of queries and keys. It is an integer in all known files; newer files have it one level
// deeper.
static void read_rotary_base(struct json *root, struct transformer *model)
{
    struct json within = *root, value;
    const bool is_deeper = !json_has(root, "rope_theta") && json_find(root, "rope_parameters", &value);
    if (is_deeper && json_kind(&value) == JSON_OBJECT)
        within = json_object(root, "rope_parameters");
    const char *key = json_has(&within, "rotary_emb_base") ? "rotary_emb_base" : "rope_theta";
    if (json_find(&within, key, &value) && json_kind(&value) == JSON_NUMBER) {
        const double base = json_fraction(&within, key);
        model->rotary_base = base >= 1 && base <= (double)JSON_MAX ? (uint64_t)(base + 0.5) : 0;
    }
}

// Heads of other tasks than the next token's. A multimodal class has a language model's.
static void say_heads(struct json *root, struct text *notes)
{
    static const char *const others[] = { "SequenceClassification", "TokenClassification", "QuestionAnswering",
                                          "MultipleChoice", "RewardModel" };
    struct json list, item;
    if (!json_find(root, "architectures", &list) || json_kind(&list) != JSON_ARRAY)
        return;
    while (json_next(&list, &item)) {
        const char *name = json_kind(&item) == JSON_STRING ? json_item_string(&item) : "";
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            if (strstr(name, others[i]))
                text_add(notes, "architectures: %.80s has a head of its own, and what is estimated is a model that"
                         " predicts tokens\n", name);
    }
}

static void say_all(struct config_fields *fields, const struct transformer *model, struct text *notes)
{
    if (!notes)
        return;
    if (fields->taken->length > 0)
        text_add(notes, "left out, and taken from the defaults of %s: %s\n", model->name, fields->taken->data);
    say_heads(fields->root, notes);
    fields_say_unread(fields, model->name, notes);
}

static void read_text_model(struct config_fields *fields, const struct family *family, struct transformer *model,
                            struct text *notes)
{
    struct text taken = { 0 };
    fields->defaults = family->defaults;
    fields->taken = notes ? &taken : NULL;
    snprintf(model->name, sizeof model->name, "%s", family->name);
    if (fields_have(fields, "vocab_size"))
        model->vocabulary = fields_number(fields, "vocab_size", 1, MOST_WORDS);
    family->read(fields, model);
    if (model->vocabulary == 0)
        model->vocabulary = fields_number(fields, "vocab_size", 1, MOST_WORDS);
    if (model->is_rotary)
        read_rotary_base(fields->root, model);
    read_activation(fields, model);
    model->predicted = fields_number_or(fields, "num_nextn_predict_layers|num_mtp_layers", 0,
                                        TRANSFORMER_MOST_PREDICTED, 0);
    say_all(fields, model, notes);
    text_clear(&taken);
}

// Files of before there was a text_config have its fields beside the others.
static void read_wrapped(struct json *root, const char *name, const struct wrapper *wrapper, struct transformer *model,
                         struct text *notes)
{
    struct json text = *root;
    const bool is_within = has_text_model(root);
    if (is_within)
        text = json_object(root, "text_config");
    struct config_fields fields = { .root = &text, .is_within = is_within || wrapper };
    char type[TRANSFORMER_NAME] = "";
    if (is_within)
        fields_word(&fields, "model_type", type, sizeof type);
    const struct family *family = find_family(type[0] ? type : wrapper ? wrapper->text : "");
    if (!family) {
        refuse_type(&text, type[0] ? type : name);
        return;
    }
    if (notes)
        text_add(notes, "%.40s: its text model alone is estimated, without what sees images or hears\n", name);
    read_text_model(&fields, family, model, notes);
    if (wrapper && wrapper->tied == TIED_WITHIN)
        return;
    const bool is_said = json_has(root, "tie_word_embeddings");
    const bool beside = is_said ? json_bool(root, "tie_word_embeddings") : wrapper && wrapper->is_tied;
    if (!wrapper)
        model->is_tied = is_said ? beside : model->is_tied;
    else
        model->is_tied = beside || (wrapper->tied == TIED_BY_EITHER && model->is_tied);
}

void transformer_read_family(struct json *root, struct transformer *model, struct text *notes)
{
    char name[TRANSFORMER_NAME] = "";
    find_type(root);
    json_string_into(root, "model_type", name, sizeof name);
    const struct family *family = find_family(name);
    const struct wrapper *wrapper = find_wrapper(name);
    struct config_fields fields = { .root = root };
    if (family)
        read_text_model(&fields, family, model, notes);
    else if (wrapper || has_text_model(root))
        read_wrapped(root, name, wrapper, model, notes);
    else
        refuse_type(root, name);
}
