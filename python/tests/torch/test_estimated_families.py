"""Parameters of estimated models against those of transformers' own classes, on the meta device.

    python3 python/tests/torch/test_estimated_families.py CONFIG..    a table of these files

What is counted of models that also see or hear is the text model. A correction of DeepSeek's router (a bias for each
expert) is a parameter in their files, and a buffer in transformers, which is counted where Weir counts it.
"""

import glob
import json
import os
import re
import sys
import unittest

try:
    import torch
    import transformers
except ImportError:
    transformers = None
import weir

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3)
CONFIGS = os.path.join(TREE, os.pardir, 'shared/data/field/estimate/configs')
SEES = re.compile('vision|visual|(?<!vocab_)projector|image_newline|image_tower|video_tower|connector|embed_vision')


def family(name, **fields):
    return {'model_type': name, **fields}


def within(name, *, tied=None, **fields):
    """A model that also sees: what its text model states."""
    beside = {} if tied is None else {'tie_word_embeddings': tied}
    return {'model_type': name, 'text_config': {'num_hidden_layers': 2, **fields}, **beside}


# Each class as it is, with few layers.
PLAIN = [family(name, num_hidden_layers=4) for name in (
    'apertus', 'arcee', 'cohere', 'cohere2', 'exaone4', 'falcon', 'falcon_h1', 'gemma', 'gemma2', 'gemma3_text', 'glm',
    'glm4', 'gpt2', 'gpt_bigcode', 'gpt_neox', 'gptj', 'gpt_oss', 'granite', 'granitemoe', 'granitemoehybrid', 'helium',
    'internlm3', 'jamba', 'llama', 'llama4_text', 'minimax', 'minimax_m2', 'ministral3', 'mistral', 'mixtral', 'mpt',
    'olmo', 'olmo2', 'olmo3', 'olmoe', 'phi', 'phi3', 'phimoe', 'qwen2', 'qwen2_moe', 'qwen3', 'qwen3_5_text',
    'qwen3_5_moe_text', 'qwen3_moe', 'qwen3_next', 'seed_oss', 'smollm3', 'stablelm', 'starcoder2', 'ernie4_5',
    'ernie4_5_moe', 'bloom', 'opt', 'codegen', 'mamba2', 'bamba', 'deepseek_v3', 'glm4_moe_lite', 'granitemoeshared',
    'deepseek_v32', 'glm_moe_dsa', 'cwm', 'exaone', 'iquestcoder', 'vaultgemma', 'hyperclovax', 'granite_swa', 'nanochat',
    'jais2', 'gpt-sw3', 'aria_text', 'hy_v3', 'youtu', 'minicpm3', 'flex_olmo', 'granitemoe_swa', 'mellum', 'sarvam_mla', 'sarvam_moe',
    'solar_open', 'exaone_moe', 'afmoe', 'olmo_hybrid', 'kimi_linear', 'lfm2', 'mamba', 'falcon_mamba', 'camembert',
    'data2vec-text', 'xlm-roberta-xl', 'roberta-prelayernorm', 'megatron-bert', 'ernie', 'distilbert', 'eurobert',
    'modernbert', 'modernbert-decoder', 'vit', 'vit_msn', 'ijepa', 'dinov2', 'dinov2_with_registers')]

# What their fields switch on and off.
SWITCHED = [
    family('nemotron', num_hidden_layers=3, num_key_value_heads=8, attention_bias=True, mlp_bias=True),
    family('nemotron_h', hybrid_override_pattern='M-ME*', moe_latent_size=1024, use_bias=True, mlp_bias=True),
    family('nemotron_h', layers_block_type=['mamba', 'moe', 'attention', 'mlp'], n_groups=4, n_shared_experts=1),
    family('dbrx', n_layers=3, attn_config={'kv_n_heads': 4, 'rope_theta': 1e4},
           ffn_config={'ffn_hidden_size': 1024, 'moe_num_experts': 8, 'moe_top_k': 2}),
    family('dots1', num_hidden_layers=4, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=2,
           first_k_dense_replace=1, attention_bias=True),
    family('gpt_neo', num_layers=4, attention_types=[[['global', 'local'], 2]]),
    family('falcon', num_hidden_layers=3, new_decoder_architecture=True, num_kv_heads=1, bias=True,
           num_ln_in_parallel_attn=1),
    family('falcon', num_hidden_layers=3, multi_query=False, parallel_attn=False, bias=True, alibi=True),
    family('falcon', num_hidden_layers=3, new_decoder_architecture=True, num_kv_heads=71),
    family('cohere', num_hidden_layers=3, use_qk_norm=True, attention_bias=True),
    family('stablelm', num_hidden_layers=3, use_qkv_bias=True, qk_layernorm=True, use_parallel_residual=True,
           num_key_value_heads=8),
    family('seed_oss', num_hidden_layers=2, attention_out_bias=True, mlp_bias=True),
    family('starcoder2', num_hidden_layers=2, use_bias=False),
    family('phimoe', num_hidden_layers=2, attention_bias=True, lm_head_bias=True),
    family('ernie4_5', num_hidden_layers=2, use_bias=True),
    family('ernie4_5_moe', num_hidden_layers=8, moe_layer_start_index=2, moe_layer_end_index=6, moe_layer_interval=2,
           use_bias=True),
    family('mistral', num_hidden_layers=2, attention_bias=True),
    family('llama', num_hidden_layers=2, attention_bias=True, mlp_bias=True),
    family('qwen2', num_hidden_layers=2, qkv_bias=False),
    family('qwen2_moe', num_hidden_layers=2, qkv_bias=False, mlp_only_layers=[1]),
    family('qwen3_moe', num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[1], attention_bias=True),
    family('granitemoehybrid', num_hidden_layers=4, layer_types=['mamba', 'attention', 'mamba', 'mamba'],
           num_local_experts=0, shared_intermediate_size=512),
    family('granitemoehybrid', num_hidden_layers=2, layer_types=['mamba', 'attention'], mamba_conv_bias=False,
           attention_bias=True, tie_word_embeddings=True),
    family('granitemoeshared', num_hidden_layers=2, shared_intermediate_size=700),
    family('jamba', num_hidden_layers=16, mamba_conv_bias=False, mamba_d_state=8, mamba_dt_rank=100),
    family('jamba', num_hidden_layers=8, num_experts=1, num_experts_per_tok=1),
    family('falcon_h1', num_hidden_layers=2, mamba_rms_norm=True, attention_bias=True, mlp_bias=True),
    family('falcon_h1', num_hidden_layers=2, mamba_d_ssm=None, mamba_d_head=64, mamba_n_heads=128),
    family('bamba', num_hidden_layers=4, attn_layer_indices=[1, 3]),
    family('minimax', num_hidden_layers=5, layer_types=['linear_attention'] * 4 + ['full_attention'], head_dim=64),
    family('qwen3_next', num_hidden_layers=6, mlp_only_layers=[2], full_attention_interval=3),
    family('qwen3_next', num_hidden_layers=2, attention_bias=True, full_attention_interval=2),
    family('deepseek_v2', num_hidden_layers=3, num_experts_per_tok=6, q_lora_rank=None, first_k_dense_replace=1),
    family('glm4_moe', num_hidden_layers=3, use_qk_norm=True, attention_bias=True, head_dim=128),
    family('hunyuan_v1_dense', num_hidden_layers=2, head_dim=128),
    family('ministral', num_hidden_layers=2, head_dim=128),
    family('opt', num_hidden_layers=3, enable_bias=False),
    family('gpt_bigcode', n_layer=3, multi_query=False),
    family('gpt2', n_layer=2, n_inner=999),
    family('mamba2', num_hidden_layers=3, use_bias=True),
    family('bert', num_hidden_layers=3, vocab_size=1000, max_position_embeddings=128),
    family('roberta', num_hidden_layers=3, type_vocab_size=1),
    family('t5'), family('mt5'), family('t5', num_layers=2, num_decoder_layers=5, d_model=1024, d_kv=128, num_heads=16),
    family('t5', num_layers=3, feed_forward_proj='gated-gelu', tie_word_embeddings=False),
    family('mt5', num_layers=2, relative_attention_num_buckets=64, tie_word_embeddings=False),
    family('vit', num_hidden_layers=3, id2label={0: 'cat', 1: 'dog', 2: 'bird'}, patch_size=32),
    family('vit', num_hidden_layers=3, qkv_bias=False, image_size=384),
    family('deit', num_hidden_layers=3, id2label={0: 'cat', 1: 'dog', 2: 'bird'}),
    family('deit', num_hidden_layers=2, qkv_bias=False, patch_size=32, num_labels=10),
    family('ijepa', num_hidden_layers=2, image_size=384), family('vit_msn', num_hidden_layers=2, qkv_bias=False),
    family('dinov2', num_hidden_layers=2, use_swiglu_ffn=True, hidden_size=1536, num_attention_heads=24),
    family('dinov2', num_hidden_layers=2, use_mask_token=False, qkv_bias=False, mlp_ratio=3, num_labels=1000),
    family('dinov2_with_registers', num_hidden_layers=2, num_register_tokens=7),
    family('umt5'), family('umt5', num_layers=2, num_decoder_layers=3, feed_forward_proj='relu'),
    family('eurobert', num_hidden_layers=2, mlp_bias=True, attention_bias=True, num_key_value_heads=4),
    family('modernbert', num_hidden_layers=4, norm_bias=True, attention_bias=True, mlp_bias=True, decoder_bias=False,
           classifier_bias=True, global_attn_every_n_layers=2),
    family('modernbert-decoder', num_hidden_layers=3, local_attention=64, classifier_bias=True),
    family('ernie', num_hidden_layers=2, use_task_id=True, task_type_vocab_size=5),
    family('distilbert', n_layers=2, dim=512, n_heads=8, hidden_dim=1000),
    family('hunyuan_v1_moe', num_hidden_layers=2, num_experts=8, moe_topk=[2, 2], head_dim=128, attention_bias=True),
    family('hunyuan_v1_moe', num_hidden_layers=2, num_experts=4, moe_topk=1, head_dim=64, num_key_value_heads=8),
    family('afmoe', num_hidden_layers=3, num_dense_layers=2, num_shared_experts=1, global_attn_every_n_layers=2),
    family('exaone_moe', num_hidden_layers=3, first_k_dense_replace=2, num_shared_experts=2, num_experts=16),
    family('exaone_moe', num_hidden_layers=2, mlp_layer_types=['sparse', 'dense']),
    family('mellum', num_hidden_layers=3, mlp_layer_types=['dense', 'sparse', 'sparse'], attention_bias=True,
           layer_types=['full_attention', 'sliding_attention', 'sliding_attention']),
    family('sarvam_mla', num_hidden_layers=3, first_k_dense_replace=2, q_lora_rank=512, num_experts=16),
    family('sarvam_moe', num_hidden_layers=2, num_experts=8, num_shared_experts=2, use_qk_norm=False, attention_bias=True),
    family('solar_open', num_hidden_layers=2, n_routed_experts=8, attention_bias=True),
    family('longcat_flash', num_layers=2), family('longcat_flash', num_layers=2, zero_expert_num=128, moe_topk=5,
                                                  n_routed_experts=128, ffn_hidden_size=1000),
    family('hy_v3', num_hidden_layers=3, num_experts=8, num_shared_experts=2, attention_bias=True,
           mlp_layer_types=['sparse', 'dense', 'sparse']),
    family('aria_text', num_hidden_layers=2, moe_num_shared_experts=1, attention_bias=True),
    family('hyperclovax', num_hidden_layers=2, use_post_norm=False, num_attention_heads=64, mlp_bias=True),
    family('granite_swa', num_hidden_layers=2, attention_bias=True, mlp_bias=True, layer_types=['full_attention'] * 2),
    family('granitemoe_swa', num_hidden_layers=2, num_local_experts=4, attention_bias=True),
    family('nanochat', num_hidden_layers=2, attention_bias=True, final_logit_softcapping=None),
    family('youtu', num_hidden_layers=2, q_lora_rank=None), family('minicpm3', num_hidden_layers=2, mlp_bias=True),
    family('jais2', num_hidden_layers=2, attention_bias=False, mlp_bias=False, num_key_value_heads=2),
    family('olmo_hybrid', num_hidden_layers=3), family('olmo_hybrid', num_hidden_layers=9, attention_bias=True),
    family('olmo_hybrid', num_hidden_layers=2, layer_types=['full_attention', 'linear_attention'],
           linear_num_key_heads=10, linear_num_value_heads=20, linear_key_head_dim=64, linear_conv_kernel_dim=3),
    family('kimi_linear', num_hidden_layers=5, first_k_dense_replace=2, num_experts=16, num_experts_per_token=4,
           num_shared_experts=2, q_lora_rank=300, linear_attn_config={
               'head_dim': 64, 'num_heads': 16, 'short_conv_kernel_size': 3, 'full_attn_layers': [2, 5],
               'kda_layers': [1, 3, 4]}),
    family('kimi_linear', num_hidden_layers=3, layer_types=['linear_attention', 'full_attention', 'linear_attention'],
           mlp_layer_types=['sparse', 'dense', 'sparse'], linear_num_heads=8),
    family('lfm2', num_hidden_layers=4, full_attn_idxs=[1], conv_bias=True, block_ffn_dim_multiplier=1.3,
           block_multiple_of=128, tie_embedding=False),
    family('lfm2', num_hidden_layers=3, layer_types=['conv', 'full_attention', 'conv'], block_auto_adjust_ff_dim=False,
           block_ff_dim=5000, conv_L_cache=5),
    family('lfm2_moe', num_hidden_layers=4, layer_types=['conv', 'conv', 'full_attention', 'conv'], conv_bias=True),
    family('lfm2_moe', num_hidden_layers=3, layer_types=['conv', 'full_attention', 'conv'], num_dense_layers=1,
           num_experts=8, num_experts_per_tok=2, use_expert_bias=False, tie_word_embeddings=False),
    family('mamba', num_hidden_layers=3, use_bias=True, use_conv_bias=False, time_step_rank=50, state_size=8, expand=3),
    family('falcon_mamba', num_hidden_layers=2, tie_word_embeddings=False, hidden_size=1000),
]

# Text models within others, and where their heads are said to be tied.
WRAPPED = [within(name, **fields) for name, fields in (
    ('gemma3', {}), ('llava', {'model_type': 'mistral'}), ('llava', {'vocab_size': 32064}), ('llava_next', {}),
    ('llava_onevision', {}), ('vipllava', {}), ('video_llava', {}), ('qwen2_vl', {}), ('qwen2_5_vl', {}),
    ('qwen3_vl', {}), ('qwen3_vl_moe', {}), ('qwen3_5', {}), ('qwen3_5_moe', {}), ('llama4', {}), ('mistral3', {}),
    ('idefics2', {}), ('idefics3', {}), ('smolvlm', {}), ('internvl', {}), ('cohere2_vision', {}), ('paligemma', {}),
    ('aria', {}), ('emu3', {}), ('lfm2_vl', {}),
    ('glm4v', {}), ('glm4v_moe', {'head_dim': 128}))]
TIED = [within(name, tied=beside, tie_word_embeddings=inside)
        for name in ('llava', 'qwen3_vl', 'llama4', 'mistral3', 'gemma3')
        for beside, inside in ((True, False), (False, True))]
FLAT = [family('qwen2_vl', num_hidden_layers=2, hidden_size=1536, num_attention_heads=12, num_key_value_heads=2,
               intermediate_size=8960, vocab_size=151936, tie_word_embeddings=True)]


def made_of(config):
    fields = dict(config)
    return transformers.CONFIG_MAPPING[fields.pop('model_type')](**fields)


def written(config):
    """What transformers writes as the config.json of a model of this configuration."""
    return json.loads(made_of(config).to_json_string(use_diff=False))


def counted(config):
    """Parameters of the text model of transformers' class, corrections of routers that are buffers included."""
    made = made_of(config)
    if config['model_type'] == 'deit':  # of which there are two
        made.architectures = ['DeiTForImageClassification']
    with torch.device('meta'):
        for kind in ('CausalLM', 'MaskedLM', 'ImageClassification', 'Seq2SeqLM', 'ImageTextToText'):
            try:
                model = getattr(transformers, 'AutoModelFor' + kind).from_config(made)
                break
            except ValueError as why:
                if 'Unrecognized configuration class' not in str(why):
                    raise
    count = sum(tensor.numel() for name, tensor in model.named_parameters() if not SEES.search(name))
    if config['model_type'] in ('deepseek_v3', 'glm4_moe'):
        count += sum(tensor.numel() for name, tensor in model.named_buffers() if 'correction_bias' in name)
    return count


def estimated(config):
    return weir.estimate(config, 'h100-sxm', sequence=32, without_mtp=True).document


@unittest.skipUnless(transformers, 'transformers is not installed')
class Families(unittest.TestCase):
    def holds(self, config):
        with self.subTest(config=config):
            document = estimated(config)
            self.assertEqual(document['parameters'], counted(config))
            # The layers on one device have all of them.
            self.assertEqual(sum(layer['count'] * layer['parameters'] for layer in document['layers']),
                             document['parameters'])
            self.assertEqual(estimated(written(config))['parameters'], document['parameters'])

    def test_classes_as_they_are_have_as_many_parameters(self):
        for config in PLAIN:
            self.holds(config)

    def test_what_fields_switch_on_is_counted(self):
        for config in SWITCHED:
            self.holds(config)

    def test_text_models_within_others_are_counted_alone(self):
        for config in WRAPPED + TIED + FLAT:
            self.holds(config)

    def test_configurations_of_the_field_have_as_many_parameters(self):
        files = sorted(glob.glob(os.path.join(CONFIGS, '*.json')))
        if not files:
            self.skipTest('there is no ../shared/data/field/estimate/configs')
        for path in files:
            with open(path, encoding='utf-8') as file:
                config = json.load(file)
            with self.subTest(file=os.path.basename(path)):
                self.assertEqual(estimated(config)['parameters'], counted(config))


def main():
    transformers.logging.set_verbosity_error()
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as file:
            config = json.load(file)
        ours, theirs = estimated(config)['parameters'], counted(config)
        print(f'{os.path.basename(path):36} {theirs:>16,} {ours:>16,} {"" if ours == theirs else "differ"}')


if __name__ == '__main__':
    main()
