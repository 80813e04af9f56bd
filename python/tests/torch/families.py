"""Small models of transformers, each as its family is built, and what its tokenizer would give it."""

import torch

try:  # at once, so that ranks, which are forks of the tests, need not
    import transformers
    import transformers.modeling_utils  # noqa: F401
except ImportError:
    transformers = None

WORDS = 96
USUAL = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4}
GROUPED = {**USUAL, "num_key_value_heads": 2}
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
GPT2 = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "resid_pdrop": 0,
        "embd_pdrop": 0, "attn_pdrop": 0}
OPT = {"vocab_size": WORDS, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
       "word_embed_proj_dim": 32, "max_position_embeddings": 64, "dropout": 0}
T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0, "dropout_rate": 0}
BART = {"vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        "dropout": 0, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}

# By name: the class, that of its configuration, and what that is told.
FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", USUAL),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 8}),
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", USUAL),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "opt": ("OPTForCausalLM", "OPTConfig", OPT),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
    "phi": ("PhiForCausalLM", "PhiConfig", {**USUAL, "resid_pdrop": 0}),
    "bert": ("BertForMaskedLM", "BertConfig", {**USUAL, **NO_DROPOUT}),
    "bert-classes": ("BertForSequenceClassification", "BertConfig", {**USUAL, **NO_DROPOUT}),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", BART),
    "falcon": ("FalconForCausalLM", "FalconConfig", {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2,
                                                     "num_attention_heads": 4}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 4,
                                                        "output_router_logits": True})}


def family(name, **more):
    """The model, with the same weights at each call."""
    torch.manual_seed(0)
    of_model, of_config, sizes = FAMILIES[name]
    return getattr(transformers, of_model)(getattr(transformers, of_config)(**sizes, **more)).train()


def sample_of(name, batch=2, length=10, mask="padded", seed=1):
    """Words, a mask and labels; `mask`: "ones", "padded" (on the right, each sequence elsewhere), or "packed" sequences
    told by their positions. Labels count everywhere, so that a mean over micro-batches is one over all."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(3, WORDS, (batch, length), generator=generator)
    labels = torch.randint(2, (batch,), generator=generator) if name == "bert-classes" else words.clone()
    sample = {"input_ids": words, "labels": labels}
    if mask == "packed":
        first = torch.randint(2, length - 2, (batch, 1), generator=generator)
        places = torch.arange(length).expand(batch, length)
        return {**sample, "position_ids": torch.where(places < first, places, places - first)}
    ends = torch.randint(length // 2, length, (batch, 1), generator=generator) if mask == "padded" else length
    return {**sample, "attention_mask": (torch.arange(length).expand(batch, length) < ends).long()}
