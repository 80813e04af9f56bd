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

# Sources of before FlashAttention: scores are kept, there is dropout, nothing of REDUCE is hidden.
EARLY = ('korthikanti', 'sc21', 'bloom', 'vtrain', 'zero-bubble', 'megatron-2020')
PYTORCH = ('mosaic', 'torchtitan', 'internevo', 'fms', 'nemo-automodel')  # without Megatron's kernels: FlashAttention 2
DEEPSPEED = ('bloom',)  # whose pipeline engine sends activations whole from every device of a tensor group
UNSAID_GRAPHS = ('megatron-bridge-26.08',)  # says neither graphs nor dispatcher; its predecessor's rows have both
MANY_WORDS = {'Nemotron4': 256000, '': 51200}  # where a row does not say: by how a model's name begins
WINDOW = 128  # tokens, of the layers of GPT-OSS that have one


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


def config_of(row):
    """The row's model as a config.json; None for what is no plain transformer."""
    model = row['model']
    is_hybrid = model.get('hybrid_pattern') or 'nemotron3' in model['name'].replace('-', '').lower()
    if is_hybrid or not row.get('gpus') and row['kind'] == 'run':
        return None
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
        return {**config, **experts, 'model_type': 'deepseek_v3', 'n_routed_experts': model['experts'],
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
    if zero in ('None', '0') and is_early(row):
        return 'none'
    return 'optimizer'


def attention_of(row):
    if starts_with(row, *PYTORCH):
        return 'flash'
    if flag_of(row, 'attention-backend') == 'unfused' or flag_of(row, 'transformer-impl') == 'local':
        return 'plain'
    if not is_early(row):
        return 'fused'
    return 'again' if row.get('recompute') == 'selective' else 'plain'


def modules_of(row):
    """What is run again apart from whole layers: "selective:moe/layernorm" or "selective:[moe_act]"."""
    said = (row.get('recompute') or '').partition('selective:')[2]
    return set(said.strip('[]').split('/')) - {''}


# Megatron's --recompute-modules, as weir.estimate has them; those that are whole layers, by their kind.
PARTS_AGAIN = {'layernorm': 'norms', 'moe_act': 'activations', 'mla_up_proj': 'latent'}
LAYERS_AGAIN = {'mlp': 'mlp', 'moe': 'experts'}


def loss_of(row):
    """Transformer Engine's in Bridge's recipes; PyTorch's where it is alone."""
    if starts_with(row, 'megatron-bridge', 'bridge'):
        return 'fused'
    return 'plain' if starts_with(row, 'torchtitan', 'fms') else 'inplace'


def again_of(row):
    return [part for module, part in PARTS_AGAIN.items() if module in modules_of(row)]


def layers_again(row):
    """Kinds of layers of which all but the input is run again."""
    if row.get('recompute') == 'full':
        return {'attention', 'windowed', 'mlp', 'experts'}
    return {kind for module, kind in LAYERS_AGAIN.items() if module in modules_of(row)}


def has_small_passes_fused(row):
    """By a compiler, or by hand as Megatron's; its router only where recipes for performance ask for Transformer
    Engine's kernels (moe_router_fusion, since the autumn of 2025)."""
    is_fused = not row['model'].get('experts') or starts_with(row, 'megatron-bridge')
    if is_early(row) or starts_with(row, *PYTORCH) or not is_fused:
        return bool(row.get('compile'))
    return True


def is_blocking(row):
    """BLOOM's trials on more than 160 GPUs hang unless CUDA_LAUNCH_BLOCKING is set (chronicles-prequel.md)."""
    return starts_with(row, 'bloom') and row['gpus'] > 160


def overlap_of(row):
    if starts_with(row, 'sc21', 'bloom'):  # of before Megatron's asynchronous all-reduce
        return 'nothing'
    return 'backward' if is_early(row) else 'all'


def dispatch_of(row):
    known = row.get('moe_dispatcher') in ('deepep', 'hybridep') or row['source']['key'] in UNSAID_GRAPHS
    return 'once' if known else 'each'


def graphs_of(row):
    """Whether launches cost nothing: all of an iteration is a graph, or, without experts, all layers are."""
    said = row.get('cuda_graph')
    if row['source']['key'] in UNSAID_GRAPHS:
        return True
    return said == 'full_iteration' or bool(said) and said != 'none' and not row['model'].get('experts')


def request_of(row):
    tp, cp, pp, dp = degrees_of(row)
    early, sharded = is_early(row), shard_of(row) == 'weights'
    parallel = row.get('sequence_parallel')
    if parallel is None:
        parallel = tp > 1 and not early
    return dict(tensor=tp, context=cp, data=dp, expert=row.get('ep') or 1, micro_batch=row['micro_batch'],
                sequence=row['model']['seq'], dtype='fp16' if row.get('dtype') in ('fp16', None) else 'bf16',
                products=products_of(row), attention=attention_of(row), shard=shard_of(row),
                sequence_parallel=bool(parallel) and tp > 1,
                overlap=overlap_of(row),
                graphs=graphs_of(row), dispatch=dispatch_of(row), again=again_of(row), loss=loss_of(row),
                blocking=is_blocking(row),
                hidden_experts=bool(row.get('moe_a2a_overlap')) or row['source']['key'] in UNSAID_GRAPHS,
                compiled=has_small_passes_fused(row))


# --- its schedule ----------------------------------------------------------------------------------------------------

SCHEDULES = {'1f1b': '1f1b', 'none': '1f1b', 'interleaved-1f1b': 'interleaved', 'zb-1p': 'zb-h1', 'zb-2p': 'zb-h2',
             'zb-v': 'zb-v'}


@functools.lru_cache(None)
def schedule_of(name, ranks, micro_batches, chunks):
    chunks = chunks if name == 'interleaved' else None  # that of others is their own
    return weir.schedule(name, ranks=ranks, micro_batches=micro_batches, chunks=chunks)


def schedule_named(row):
    """Its schedule in Weir's words, and the stages of each rank."""
    layout, pp = layout_of(row), degrees_of(row)[2]
    if layout and len(layout) > pp:
        return 'interleaved', len(layout) // pp
    name = SCHEDULES.get(row['schedule'] or 'none', '1f1b')
    chunks = (row.get('vpp') or 1) if name == 'interleaved' else 2 if name == 'zb-v' else 1
    if starts_with(row, 'zero-bubble') and name == 'interleaved':
        chunks = (row['model']['layers'] + 2) // pp  # a layer in each
    return ('1f1b' if name == 'interleaved' and chunks == 1 else name), chunks


def micro_batches_of(row):
    tp, cp, pp, dp = degrees_of(row)
    return derived_of(row, 'microbatches') or max(1, (row['global_batch'] or pp * dp) // (dp * row['micro_batch']))


# --- what is run again, and who has which blocks ---------------------------------------------------------------------

def recomputed_share(row):
    """Of a block's forward, how much is run again before its backward."""
    said = row.get('recompute') or 'none'
    if said == 'full':
        return 1
    if said.startswith('full-block:'):
        return int(said.split(':')[1].split()[0]) * max(row['pp'] or 1, 1) / row['model']['layers']
    if 'every 2nd' in said:
        return 0.5
    return 0


def layout_of(row):
    """Megatron's --pipeline-model-parallel-layout: the stages' layers, "Et|(tt|)*6mL"."""
    said = flag_of(row, 'pipeline-model-parallel-layout')
    return re.sub(r'\((.*?)\)\*(\d+)', lambda found: found[1] * int(found[2]), said).split('|') if said else None


def blocks_of(row, stages):
    """How many blocks each stage has: as is said, or evenly; where that is not possible, with one less at the ends."""
    layers, layout = row['model']['layers'], layout_of(row)
    if layout:
        return [stage.count('t') + stage.count('m') for stage in layout]  # which predict a token further on
    first, last = (flag_of(row, f'decoder-{end}-pipeline-num-layers') for end in ('first', 'last'))
    if first and last and 2 < stages == degrees_of(row)[2]:
        return [first] + [(layers - first - last) // (stages - 2)] * (stages - 2) + [last]
    if starts_with(row, 'zero-bubble') or layers % stages and (layers + 2) % stages == 0:
        per = (layers + 2) // stages
        return [per - 1 if s in (0, stages - 1) else per for s in range(stages)]
    return [layers * (s + 1) // stages - layers * s // stages for s in range(stages)]


def estimate_row(row):
    device, config = device_of(row), config_of(row)
    if not device or not config:
        return None
    return weir.estimate(config, device, **request_of(row)).document, device
