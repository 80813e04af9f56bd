"""What a row of a list of published training runs tells: of its device, its model and its framework, by rules that
stand here once for all rows. Nothing is fitted. For compare_estimates.py and published_memory.py.
"""

import copy
import functools
import json
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, 'python'))
import weir

DEVICES = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, 'profiler/estimate/devices')

# --- what a row's words mean ---------------------------------------------------------------------------------------

HARDWARE = (  # how a row's hardware begins: the device, and what its cluster or make has else than the document
    ('A100-SXM4-80GB (Jean Zay', 'a100-80', {'network': 6.25e9}),        # 4 Omni-Path links of 100 Gb/s for 8
    ('A100-SXM4-80GB (4x100 Gb', 'a100-80', {'network': 6.25e9}),
    ('A100-SXM4-80GB', 'a100-80', {}),
    ('A100-SXM4-40GB', 'a100-40', {}),
    ('A800-SXM4-80GB', 'a100-80', {'links': 200e9}),
    ('H100-SXM5-96GB', 'h100-sxm', {'memory': 96 * 2**30, 'bandwidth': 2.4e12, 'power': 500 / 700}),
    ('H100-SXM5-94GB', 'h100-sxm', {'memory': 94 * 10**9, 'bandwidth': 2.4e12}),
    ('H100', 'h100-sxm', {}),
    ('H200', 'h200', {}),
    ('GB200', 'gb200', {}),
    ('GB300', 'gb300', {}),
    ('B200', 'b200', {}),
    ('B300', 'b300', {}),
)
NETWORKS = {'vtrain-multi': 12.5e9, 'zero-bubble-tab4': 12.5e9, 'zero-bubble-tab6': 12.5e9}  # of a source's cluster

# Sources of before FlashAttention, whose models have dropout.
EARLY = ('korthikanti', 'sc21', 'bloom', 'vtrain', 'zero-bubble', 'megatron-2020')
MANY_WORDS = {'Nemotron4': 256000, '': 51200}  # where a row does not say: by how a model's name begins
WINDOW = 128  # tokens, of the layers of GPT-OSS that have one
# What rows of Nemotron-3-Nano do not say (the config.json of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16).
NANO = {'vocab_size': 131072, 'head_dim': 128, 'mamba_num_heads': 64, 'mamba_head_dim': 64, 'n_groups': 8,
        'ssm_state_size': 128, 'conv_kernel': 4, 'chunk_size': 128, 'n_shared_experts': 1}


@functools.lru_cache(None)
def device_document(name):
    with open(os.path.join(DEVICES, name + '.json'), encoding='utf-8') as file:
        return json.load(file)


def device_of(row):
    for begin, name, other in HARDWARE:
        if (row['hardware'] or '').startswith(begin):
            break
    else:
        return None
    device = copy.deepcopy(device_document(name))
    network = other.get('network', NETWORKS.get(row['source']['key']))
    if network:
        device['levels'][-1]['bytes_per_second'] = int(network)
    if 'links' in other:
        device['levels'][0]['bytes_per_second'] = int(other['links'])
    if 'bandwidth' in other:
        device['memory_bytes_per_second'] = int(other['bandwidth'])
    if 'power' in other:  # clocks go with the third root of it
        device['sustained_permille'] = round(device['sustained_permille'] * other['power'] ** (1 / 3))
    if 'memory' in other:
        device['memory_bytes'] = other['memory']
    return device


def starts_with(row, *keys):
    return row['source']['key'].startswith(keys)


def is_early(row):
    return starts_with(row, *EARLY)


def flag_of(row, name):
    return (row.get('flags') or {}).get(name)


def words_of(row):
    known = row['model'].get('vocab')
    return known or next(words for name, words in MANY_WORDS.items() if row['model']['name'].startswith(name))


def dropout_of(row):
    """Megatron's own, where nobody has turned it off as recipes do."""
    return 0.1 if is_early(row) or starts_with(row, 'megatron-ci') else 0.0


def routing_of(model):
    """DeepSeek-V3 sends tokens to experts of 4 of 8 groups (its config.json)."""
    return {'n_group': 8, 'topk_group': 4} if model['name'].startswith('DeepSeek-V3') else {}


def config_of(row):
    """The row's model as a config.json; None for what is no plain transformer."""
    model = row['model']
    is_hybrid = 'nemotron3' in model['name'].replace('-', '').lower()
    if not row.get('gpus') and row['kind'] == 'run' or is_hybrid and not model.get('hybrid_pattern'):
        return None
    if is_hybrid:
        return {'model_type': 'nemotron_h', 'hybrid_override_pattern': model['hybrid_pattern'], **NANO,
                'hidden_size': model['hidden'], 'num_attention_heads': model['heads'],
                'num_key_value_heads': model['kv_heads'], 'intermediate_size': model['ffn'],
                'n_routed_experts': model['experts'], 'num_experts_per_tok': model['topk'],
                'moe_intermediate_size': model['moe_ffn'],
                'moe_shared_expert_intermediate_size': model['shared_ffn']}
    ffn = model.get('ffn') or model.get('moe_ffn')
    if not ffn and model.get('mlp_ratio') == '8/3':
        ffn = math.ceil(model['hidden'] * 8 / 3 / 256) * 256
    words = words_of(row)
    if model.get('gated_mlp') is False and not model.get('experts') and model.get('activation') != 'squared_relu':
        return {'model_type': 'gpt2', 'n_layer': model['layers'], 'n_embd': model['hidden'], 'n_head': model['heads'],
                'n_inner': ffn, 'n_positions': model['seq'], 'vocab_size': words,
                'resid_pdrop': dropout_of(row), 'attn_pdrop': dropout_of(row)}
    config = {'num_hidden_layers': model['layers'], 'hidden_size': model['hidden'], 'vocab_size': words,
              'num_attention_heads': model['heads'], 'num_key_value_heads': model.get('kv_heads') or model['heads'],
              'intermediate_size': ffn, 'tie_word_embeddings': bool(model.get('tied')),
              'head_dim': model.get('head_dim') or model['hidden'] // model['heads'],
              'attention_dropout': dropout_of(row)}
    # Experts without a gate have two matrices: as many numbers, products and activations as with one at two thirds.
    experts_ffn = model.get('moe_ffn') and (model['moe_ffn'] * 2 // 3 if model.get('gated_mlp') is False else
                                            model['moe_ffn'])
    experts = {'num_experts': model.get('experts'), 'num_experts_per_tok': model.get('topk'),
               'moe_intermediate_size': experts_ffn}
    if model.get('attention') == 'mla':
        mla = model['mla']
        return {**config, **experts, **routing_of(model), 'model_type': 'deepseek_v3', 'n_routed_experts': model['experts'],
                'n_shared_experts': (model.get('shared_ffn') or 0) // model['moe_ffn'],
                'first_k_dense_replace': model.get('dense_layers') or 0, 'q_lora_rank': mla.get('q_lora'),
                'kv_lora_rank': mla['kv_lora'], 'qk_nope_head_dim': mla['qk_nope'],
                'qk_rope_head_dim': mla['qk_rope'], 'v_head_dim': mla['v']}
    if model.get('sliding_window_every'):
        kinds = ['full_attention' if (i + 1) % model['sliding_window_every'] == 0 else 'sliding_attention'
                 for i in range(model['layers'])]
        return {**config, 'model_type': 'gpt_oss', 'num_local_experts': model['experts'], 'sliding_window': WINDOW,
                'num_experts_per_tok': model['topk'], 'intermediate_size': model['moe_ffn'], 'layer_types': kinds}
    if model.get('experts'):
        config = {**config, **experts, 'decoder_sparse_step': model.get('moe_every') or 1}
        if model.get('shared_ffn'):
            return {**config, 'model_type': 'qwen2_moe', 'shared_expert_intermediate_size': model['shared_ffn']}
        return {**config, 'model_type': 'qwen3_moe'}
    return {**config, 'model_type': 'gpt_neox' if model.get('gated_mlp') is False else 'llama'}


def derived_of(row, key):
    return (row.get('derived') or {}).get(key)


def degrees_of(row):
    tp, cp, pp = row['tp'] or 1, row['cp'] or 1, row['pp'] or 1
    dp = row.get('dp') or derived_of(row, 'dp') or max(1, (row['gpus'] or 1) // (tp * cp * pp))
    return tp, cp, pp, dp


def devices_of(row):
    return row['gpus'] or math.prod(degrees_of(row))


def products_of(row):
    dtype = row.get('dtype') or ''
    return 'fp4' if 'fp4' in dtype else 'fp8' if 'fp8' in dtype else None


def shard_of(row):
    zero = str(row.get('zero'))
    if zero.startswith(('zero-3', '3', 'fsdp')):
        return 'weights'
    if zero in ('None', '0') and (is_early(row) or starts_with(row, 'megatron-ci')):
        return 'none'
    return 'optimizer'


# --- its framework --------------------------------------------------------------------------------------------------

LIKE = (  # how a source's name begins: the framework that its runs are of, in Weir's words
    ('sc21', 'megatron-2021'),
    ('megatron-2020', 'megatron-2021'),
    ('korthikanti', 'megatron-2022'),
    ('vtrain', 'megatron-2022'),
    ('zero-bubble', 'megatron-2022'),
    ('bloom', 'deepspeed'),
    ('internevo', 'internevo'),
    ('mosaic', 'fsdp'),
    ('fms', 'fsdp'),
    ('torchtitan', 'torchtitan'),
    ('nemo-automodel', 'torchtitan'),
    ('nemo', 'nemo'),
    ('dgxc', 'nemo'),
    ('megatron-bridge-25', 'bridge-2025'),
    ('megatron-bridge-26.02', 'bridge-2025'),
    ('megatron-bridge-26.04', 'bridge-2025'),
    ('megatron-bridge', 'bridge'),
    ('bridge', 'nemo'),  # no recipes for performance
    ('', 'megatron'),
)


def said_in(row):
    """Year and month in the name of the document: "llama3_h100_202412_torchtitan.md"."""
    found = re.search(r'_(20\d{2})-?(\d{2})_', row['source']['where'])
    return int(found[1] + found[2]) if found else 0


def like_of(row):
    like = next(like for begin, like in LIKE if starts_with(row, begin))
    return 'torchtitan-2024' if like == 'torchtitan' and said_in(row) < 202503 else like


# --- what it says of itself -----------------------------------------------------------------------------------------

MODULES = ('core_attn', 'mlp', 'moe', 'layernorm', 'moe_act', 'mla_up_proj')


def recompute_of(row):
    """In Weir's words, which are Megatron's."""
    said = row.get('recompute') or 'none'
    if said.startswith('full-block:'):
        return said.split(':')[1].split()[0]
    if 'every 2nd' in said:
        return str(row['model']['layers'] // 2)
    if said.startswith('selective:'):
        return ','.join(set(said.partition(':')[2].strip('[]').split('/')) & set(MODULES)) or 'none'
    return said if said in ('none', 'full') else 'selective' if said.startswith('selective') else 'none'


def graphs_of(row):
    """Whether launches cost nothing: all of an iteration is a graph, or, without experts, all layers are."""
    said = row.get('cuda_graph')
    if not said:
        return None
    return said == 'full_iteration' or said != 'none' and not row['model'].get('experts')


def loss_of(row):
    if starts_with(row, 'bridge'):
        return 'fused'
    if 'cross_entropy_loss_fusion' in row['model']['name']:
        return 'compiled'
    return 'plain' if like_of(row) == 'torchtitan' and row.get('compile') is False else None


def dispatch_of(row):
    """Recipes of 2025 and 2026 have a backend of the flexible dispatcher or none, which is all-to-all."""
    usual = 'each' if like_of(row) == 'bridge-2025' else None
    return {'deepep': 'once', 'hybridep': 'once', 'alltoall': 'each'}.get(row.get('moe_dispatcher'), usual)


def facts_of(row):
    """What a row says of itself that its framework does otherwise, or not always; as options."""
    unfused = flag_of(row, 'attention-backend') == 'unfused' or flag_of(row, 'transformer-impl') == 'local'
    zero = re.search(r'over (\d+) GPUs', str(row.get('zero')))
    _, cp, _, dp = degrees_of(row)
    facts = {
        'compiled': row.get('compile'),
        'graphs': graphs_of(row),
        'dispatch': dispatch_of(row),
        'loss': loss_of(row),
        'overlap': 'all' if row.get('async_tp') else None,
        'attention': 'plain' if unfused else None,
        'hidden_experts': row.get('moe_a2a_overlap'),
        # BLOOM's trials on more than 160 GPUs hang unless CUDA_LAUNCH_BLOCKING is set (chronicles-prequel.md).
        'blocking': starts_with(row, 'bloom') and row['gpus'] > 160,
        'gradient_bytes': 4 if row.get('mp_mode') == 'DEFAULT' else None,  # Composer deals out fp32 then
        'within': int(zero[1]) if zero and cp * dp % int(zero[1]) == 0 else None,
    }
    return {key: value for key, value in facts.items() if value is not None}


# --- its layout -----------------------------------------------------------------------------------------------------

SCHEDULES = {'1f1b': '1f1b', 'none': '1f1b', 'interleaved-1f1b': 'interleaved', 'zb-1p': 'zb-h1', 'zb-2p': 'zb-h2',
             'zb-v': 'zb-v'}


def layout_of(row):
    """Megatron's --pipeline-model-parallel-layout, where it is of this many ranks."""
    layout = flag_of(row, 'pipeline-model-parallel-layout') or row.get('pp_layout')
    return layout if layout and stages_in(layout) % degrees_of(row)[2] == 0 else None


def stages_in(layout):
    expanded = re.sub(r'\((.*?)\)\*(\d+)', lambda found: found[1] * int(found[2]), layout)
    return expanded.count('|') + 1


def schedule_of(row):
    """Its schedule in Weir's words, and the stages of each rank."""
    layout, pp = layout_of(row), degrees_of(row)[2]
    if layout and stages_in(layout) > pp:
        return 'interleaved', stages_in(layout) // pp
    name = SCHEDULES.get(row['schedule'] or 'none', '1f1b')
    chunks = (row.get('vpp') or 1) if name == 'interleaved' else 2 if name == 'zb-v' else 1
    if starts_with(row, 'zero-bubble') and name == 'interleaved':
        chunks = (row['model']['layers'] + 2) // pp  # a layer in each
    return ('1f1b' if name == 'interleaved' and chunks == 1 else name), chunks


def micro_batches_of(row):
    pp, dp = degrees_of(row)[2:]
    return derived_of(row, 'microbatches') or max(1, (row['global_batch'] or pp * dp) // (dp * row['micro_batch']))


def blocks_of(row):
    """How many blocks each stage has, where that is said; None: evenly."""
    layers, pp, chunks = row['model']['layers'], degrees_of(row)[2], schedule_of(row)[1]
    first, last = (flag_of(row, f'decoder-{end}-pipeline-num-layers') for end in ('first', 'last'))
    if first and last and pp > 2 and chunks == 1:
        return [first] + [(layers - first - last) // (pp - 2)] * (pp - 2) + [last]
    stages = pp * chunks
    if starts_with(row, 'zero-bubble') and pp > 1:
        per = (layers + 2) // stages
        return [per - 1 if s in (0, stages - 1) else per for s in range(stages)]
    return None


def expert_tensor_of(row):
    """Devices that share an expert: as many as share a layer, where Megatron is told nothing else."""
    return row.get('etp') or (degrees_of(row)[0] if starts_with(row, 'megatron-ci') else 1)


def configuration_of(row):
    """The model's and the layout's numbers, which every run has; as options of weir.judge()."""
    tp, cp, pp, dp = degrees_of(row)
    name, chunks = schedule_of(row)
    layout = layout_of(row) if pp > 1 else None
    parallel = row.get('sequence_parallel')
    return {
        'tensor': tp, 'context': cp, 'ranks': pp, 'chunks': chunks, 'data': dp, 'expert': row.get('ep') or 1,
        'micro_batch': row['micro_batch'], 'micro_batches': micro_batches_of(row), 'sequence': row['model']['seq'],
        'dtype': 'fp16' if row.get('dtype') in ('fp16', None) else 'bf16', 'products': products_of(row),
        'schedule': name, 'shard': shard_of(row), 'recompute': recompute_of(row), 'layout': layout,
        'blocks': None if layout else blocks_of(row), 'expert_tensor': expert_tensor_of(row),
        'offloaded': row.get('cpu_offload_layers') or 0,
        'sequence_parallel': None if parallel is None else parallel and tp > 1,
    }


def judge_row(row, with_facts):
    """What Weir says of a run, as its framework has it; with what the row says besides, or without."""
    device, config = device_of(row), config_of(row)
    if not device or not config:
        return None
    facts = facts_of(row) if with_facts else {}
    return weir.judge(config, device, like=like_of(row), **configuration_of(row), **facts).document
