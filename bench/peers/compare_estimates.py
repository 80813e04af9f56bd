#!/usr/bin/env python3
"""Holds estimates against published runs: iteration time and peak memory of every row, and the errors by group.

    bench/peers/compare_estimates.py --rows published_runs.json [--peer calculon_predictions.json] [--each]

Each row's configuration is estimated (weir.estimate), cut into the stages that its parallelism says, and simulated by
its schedule. What a row tells of its framework decides the request, by rules that stand in this file once for all rows:
nothing is fitted here. The last lines are the errors by group.
"""

import argparse
import collections
import copy
import functools
import json
import math
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True
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
MANY_WORDS = 51200  # where a row does not say


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


def is_early(row):
    return row['source']['key'].startswith(EARLY)


def config_of(row):
    """The row's model as a config.json; None for what is no plain transformer."""
    model = row['model']
    if model.get('hybrid_pattern') or not row.get('gpus') and row['kind'] == 'run':
        return None
    ffn = model.get('ffn') or model.get('moe_ffn')
    if not ffn and model.get('mlp_ratio') == '8/3':
        ffn = math.ceil(model['hidden'] * 8 / 3 / 256) * 256
    words = model.get('vocab') or MANY_WORDS
    if model.get('gated_mlp') is False and not model.get('experts') and model.get('activation') != 'squared_relu':
        return {'model_type': 'gpt2', 'n_layer': model['layers'], 'n_embd': model['hidden'], 'n_head': model['heads'],
                'n_inner': ffn, 'n_positions': model['seq'], 'vocab_size': words,
                'resid_pdrop': 0.1 if is_early(row) else 0.0}
    config = {'num_hidden_layers': model['layers'], 'hidden_size': model['hidden'], 'vocab_size': words,
              'num_attention_heads': model['heads'], 'num_key_value_heads': model.get('kv_heads') or model['heads'],
              'intermediate_size': ffn, 'tie_word_embeddings': bool(model.get('tied')),
              'head_dim': model.get('head_dim') or model['hidden'] // model['heads']}
    experts = {'num_experts': model.get('experts'), 'num_experts_per_tok': model.get('topk'),
               'moe_intermediate_size': model.get('moe_ffn')}
    if model.get('attention') == 'mla':
        mla = model['mla']
        return {**config, **experts, 'model_type': 'deepseek_v3', 'n_routed_experts': model['experts'],
                'n_shared_experts': (model.get('shared_ffn') or 0) // model['moe_ffn'],
                'first_k_dense_replace': model.get('dense_layers') or 0, 'q_lora_rank': mla.get('q_lora'),
                'kv_lora_rank': mla['kv_lora'], 'qk_nope_head_dim': mla['qk_nope'],
                'qk_rope_head_dim': mla['qk_rope'], 'v_head_dim': mla['v']}
    if model.get('experts'):
        config = {**config, **experts, 'decoder_sparse_step': model.get('moe_every') or 1}
        if model.get('shared_ffn'):
            return {**config, 'model_type': 'qwen2_moe', 'shared_expert_intermediate_size': model['shared_ffn']}
        return {**config, 'model_type': 'qwen3_moe'}
    return {**config, 'model_type': 'gpt_neox' if model.get('gated_mlp') is False else 'llama'}


def degrees_of(row):
    tp, cp, pp = row['tp'] or 1, row['cp'] or 1, row['pp'] or 1
    dp = row.get('dp') or row['derived'].get('dp') or max(1, (row['gpus'] or 1) // (tp * cp * pp))
    return tp, cp, pp, dp


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
    if row['source']['key'].startswith(PYTORCH):
        return 'flash'
    if not is_early(row):
        return 'fused'
    return 'again' if row.get('recompute') == 'selective' else 'plain'


def overlap_of(row):
    if row['source']['key'].startswith(('sc21', 'bloom')):  # of before Megatron's asynchronous all-reduce
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
                graphs=graphs_of(row), dispatch=dispatch_of(row),
                hidden_experts=bool(row.get('moe_a2a_overlap')) or row['source']['key'] in UNSAID_GRAPHS,
                compiled=bool(row.get('compile')) or not early and not row['source']['key'].startswith(PYTORCH))


# --- one row -------------------------------------------------------------------------------------------------------

KINDS = ('products_ns', 'attention_ns', 'passes_ns', 'communication_ns', 'host_ns')


def phase_ns(layer, phase):
    return sum(layer[phase][kind] for kind in KINDS)


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


def blocks_of(row, stages):
    """How many blocks each stage has: evenly, and where that is not possible with one less at each end."""
    layers = row['model']['layers']
    if row['source']['key'].startswith('zero-bubble') or layers % stages and (layers + 2) % stages == 0:
        per = (layers + 2) // stages
        return [per - 1 if s in (0, stages - 1) else per for s in range(stages)]
    return [layers * (s + 1) // stages - layers * s // stages for s in range(stages)]


def accumulated_ns(row, device, layer):
    """DeepSpeed's bf16 optimizer adds each micro-batch's gradients of 2 bytes to those of 4, and zeroes them."""
    bytes_each = 12 if 'bf16-optimizer' in str(row.get('zero')) else 0
    rate = device['memory_bytes_per_second'] * device['memory_permille'] / 1000
    return layer['parameters'] * bytes_each / rate * 1e9


def stage_rows(row, device, estimate, stages):
    """A row of costs for each stage."""
    layers = {layer['kind']: layer for layer in estimate['layers']}
    blocks, count = blocks_of(row, stages), row['model']['layers']
    again = recomputed_share(row)
    rows = []
    for s in range(stages):
        f = i = w = 0.0
        for kind, layer in layers.items():
            if kind == 'embedding':
                times = 1 if s == 0 else 0
            elif kind == 'head':
                times = 1 if s == stages - 1 else 0
            else:
                times = layer['count'] * blocks[s] / count
            f += times * phase_ns(layer, 'forward')
            i += times * phase_ns(layer, 'backward_input')
            w += times * (phase_ns(layer, 'backward_weight') + accumulated_ns(row, device, layer))
            if kind not in ('embedding', 'head'):
                i += times * again * phase_ns(layer, 'forward')
        rows.append({'forward_ns': round(f), 'backward_input_ns': round(i), 'backward_weight_ns': round(w)})
    return rows


SCHEDULES = {'1f1b': '1f1b', 'none': '1f1b', 'interleaved-1f1b': 'interleaved', 'zb-1p': 'zb-h1', 'zb-2p': 'zb-h2',
             'zb-v': 'zb-v'}


@functools.lru_cache(None)
def schedule_of(name, ranks, micro_batches, chunks):
    return weir.schedule(name, ranks=ranks, micro_batches=micro_batches, chunks=chunks)


def message_ns(row, device, estimate):
    """Of a boundary between stages."""
    tp, cp, pp, dp = degrees_of(row)
    if pp == 1:
        return 0
    apart, level = (row['gpus'] or tp * cp * pp * dp) // pp, device['levels'][0]
    if apart >= level['size'] or tp * cp * dp >= level['size']:
        level = device['levels'][-1]
    output = next(layer['output_bytes'] for layer in estimate['layers'] if layer['kind'] == 'attention')
    if not row.get('sequence_parallel') and not row['source']['key'].startswith(DEEPSPEED):
        output /= tp  # each device of the group sends a part, and the others gather it
    return level['latency_ns'] + output / (level['bytes_per_second'] * level['permille'] / 1000) * 1e9


def simulated_ns(row, device, estimate):
    tp, cp, pp, dp = degrees_of(row)
    micro_batches = row['derived'].get('microbatches') or row['global_batch'] // (dp * row['micro_batch'])
    name = SCHEDULES.get(row['schedule'] or 'none', '1f1b')
    chunks = (row.get('vpp') or 1) if name == 'interleaved' else 2 if name == 'zb-v' else 1
    if row['source']['key'].startswith('zero-bubble') and name == 'interleaved':
        chunks = (row['model']['layers'] + 2) // pp
    if name == 'interleaved' and chunks == 1:
        name = '1f1b'
    message = message_ns(row, device, estimate)
    rows = stage_rows(row, device, estimate, pp * chunks)
    if name == '1f1b':  # a send waits for its receive, and both for the work between them
        for at, cost in enumerate(rows):
            cost['forward_ns'] += round(message) if pp > 1 else 0
            cost['backward_input_ns'] += round(message) if pp > 1 else 0
    if pp == 1:
        return micro_batches * sum(rows[0].values()), micro_batches, rows
    schedule = schedule_of(name, pp, micro_batches, chunks if name == 'interleaved' else None)
    costs = {'format': 'weir.costs', 'version': 1, 'latency_ns': 0 if name == '1f1b' else round(message), 'costs': rows}
    return schedule.simulate(costs).document['iteration_ns'], micro_batches, rows


def predicted_s(row, device, estimate):
    tp, cp, pp, dp = degrees_of(row)
    total, micro_batches, rows = simulated_ns(row, device, estimate)
    reduce_ns, update_ns = estimate['reduce_ns'] / pp, estimate['update_ns'] / pp
    if not is_early(row) and row['schedule'] != 'none (ZeRO-3)':  # behind the last backward and the next first forward
        last = sum(rows[0].values())
        reduce_ns = max(reduce_ns * 0.1, reduce_ns - last)
    return (total + reduce_ns + update_ns) / 1e9


def measured_s(row):
    result = row['result']
    if 'iteration_s' in result:
        return result['iteration_s']
    return row['derived'].get('iteration_s')


def estimate_row(row):
    device, config = device_of(row), config_of(row)
    if not device or not config:
        return None
    if row['model'].get('sliding_window_every'):
        config['sliding_window'], config['use_sliding_window'] = 128, True
    return weir.estimate(config, device, **request_of(row)).document, device


# --- memory --------------------------------------------------------------------------------------------------------

GB = 1e9


def state_bytes(row, layer):
    """Weights, gradients and Adam's state of a layer's share: Megatron's, or PyTorch's with everything in shares."""
    tp, cp, pp, dp = degrees_of(row)
    plain, experts = layer['parameters'] - layer['expert_parameters'], layer['expert_parameters']
    alike = max(1, dp * cp * tp // (row.get('ep') or 1))
    shard = shard_of(row)
    if shard == 'weights':
        return 16 * (plain / (dp * cp) + experts / alike)
    if shard == 'none' or row['source']['key'] == 'megatron-ci' and not row.get('zero'):
        return 18 * (plain + experts)
    held = 8 if 'bf16-optimizer' in str(row.get('zero')) else 6  # DeepSpeed's has gradients of 2 and of 4 bytes
    held = 4 if row['source']['key'].startswith(('megatron-bridge', 'nemo', 'dgxc')) else held  # theirs are of 2
    return plain * (held + 12 / (dp * cp)) + experts * (held + 12 / alike)


def kept_bytes(row, layer):
    """Of a micro-batch, until its backward, with the layer's input, which is as large as its output."""
    if recomputed_share(row) == 1:
        return layer['output_bytes'] if layer['kind'] == 'attention' else 0  # a block's input
    saved = layer['saved_bytes'] * (0.5 if 'op' in (row.get('recompute') or '') else 1)
    return saved + layer['output_bytes']


def in_flight(row, stage, pp, micro_batches):
    """Micro-batches that a rank has forwarded and not yet backwarded, as 1F1B and Megatron's interleaving have it."""
    chunks = row.get('vpp') or 1
    if row['schedule'] == 'zb-v':
        return min(micro_batches, pp)
    if chunks > 1 and pp > 1:
        return min(micro_batches, pp * (1 + (pp - 1) / (pp * chunks)))
    if row['schedule'] == 'zb-2p':
        return min(micro_batches, 2 * pp - 1)
    return min(micro_batches, pp - stage)


def rank_bytes(row, estimate, stage, pp, micro_batches):
    layers = {layer['kind']: layer for layer in estimate['layers']}
    blocks = blocks_of(row, pp)[stage]
    total, most = 0, 0
    for kind, layer in layers.items():
        times = layer['count'] * blocks / row['model']['layers']
        if kind in ('embedding', 'head'):
            times = int(stage == (0 if kind == 'embedding' else pp - 1))
            if kind == 'head' and pp > 1 and layer['parameters'] < layer['expert_parameters'] + 10**7 and times:
                total += state_bytes(row, layers['embedding'])  # a copy of the table that it reads
        total += times * state_bytes(row, layer)
        if kind == 'head':
            most = max(most, times * (layer['saved_bytes'] + layer['backward_workspace_bytes']))
        else:
            here = max(0, 1 - (row.get('cpu_offload_layers') or 0) / (blocks or 1))  # of its blocks' activations
            total += times * here * kept_bytes(row, layer) * in_flight(row, stage, pp, micro_batches)
    again = sum(layers[kind]['saved_bytes'] for kind in layers if kind in ('attention', 'mlp', 'experts'))
    return total + max(most, again if recomputed_share(row) == 1 else 0)


def predicted_bytes(row, device, estimate):
    pp, dp = degrees_of(row)[2:]
    micro_batches = row['derived'].get('microbatches') if 'derived' in row else None
    micro_batches = micro_batches or max(1, (row['global_batch'] or pp * dp) // (dp * row['micro_batch']))
    ranks = [rank_bytes(row, estimate, stage, pp, micro_batches) for stage in range(pp)]
    most = ranks[-1] if 'peak_gib_last_rank' in row['result'] else max(ranks)
    # Where no tool is named it was not the allocator's own count.
    return most + (device['reserved_bytes'] if row['source']['key'].startswith(('bloom', 'internevo')) else 0)


def measured_bytes(row):
    result = row['result']
    for key, unit in (('peak_gb', GB), ('peak_gib', 2**30), ('peak_gib_last_rank', 2**30)):
        if result.get(key):
            return result[key] * unit
    return None


# --- groups --------------------------------------------------------------------------------------------------------

def group_of(row):
    if row['model'].get('experts'):
        return 'experts'
    if shard_of(row) == 'weights':
        return 'fsdp'
    return 'dense 8-bit' if products_of(row) else 'dense 16-bit'


def is_usable(row):
    usable = row['source']['key'].startswith(('vtrain', 'zero-bubble')) and row['usable']
    return (row['complete'] or usable) and row['task'] == 'pretrain'


def is_timed(row):
    return row['kind'] == 'run' and measured_s(row) and row['source']['key'] != 'megatron-ci'  # whose are of debugging


def is_wanted(row):
    return is_usable(row) and (is_timed(row) or row['kind'] in ('run', 'memory') and measured_bytes(row))


def show(name, errors):
    size = [abs(error) for error in errors]
    within = sum(error <= 0.2 for error in size) / len(size)
    print(f'{name:32} {len(size):4} rows  mean {100 * statistics.mean(size):5.1f} %  median '
          f'{100 * statistics.median(size):5.1f} %  within 20 %: {100 * within:3.0f} %  bias '
          f'{100 * statistics.mean(errors):+6.1f} %')


def compare_peer(path, errors):
    """The best peer without a GPU on the rows that it has, and ours on the same."""
    with open(path, encoding='utf-8') as file:
        known = [(name, predicted / measured - 1) for name, system, _, predicted, measured in json.load(file)
                 if system == 'a100_80g' and name in errors]
    by_source = collections.defaultdict(list)
    for name, error in known:
        by_source[name.rsplit('-', 1)[0]].append((error, errors[name]))
    for source in sorted(by_source):
        theirs, ours = zip(*by_source[source])
        show(f'calculon, {source}', theirs)
        show(f'     weir, {source}', ours)


def constant_errors(rows, errors):
    """One efficiency for each device and type of products, the best in hindsight, with bubbles and recomputation."""
    ratios, found = collections.defaultdict(list), []
    for row in rows:
        if row['id'] in errors and not row['model'].get('experts') and row['derived'].get('model_tflops_causal'):
            pp, chunks = row['pp'] or 1, row.get('vpp') or 1
            bubble = 1 + (pp - 1) / (chunks * (row['derived'].get('microbatches') or 1))
            tflops = row['derived']['model_tflops_causal'] * (1 + recomputed_share(row) / 3) * bubble
            ratios[device_of(row)['name'], products_of(row)].append((group_of(row), tflops))
    for of_device in ratios.values():
        constant = statistics.median(tflops for _, tflops in of_device)
        found += [(group, tflops / constant - 1) for group, tflops in of_device]
    return found


def sweeps_of(rows, errors):
    """Runs of one model, batch and cluster that differ in how they are run: (measured, predicted) of each."""
    sweeps = collections.defaultdict(dict)
    for row in rows:
        if row['id'] in errors and row['source']['key'].startswith(('bloom', 'zero-bubble')):
            model = row['model']
            same = (row['source']['key'], model['layers'], model['hidden'], model['heads'], row['gpus'],
                    row['global_batch'], row['dtype'])
            how = (row['tp'], row['pp'], row.get('vpp'), row['micro_batch'], row['schedule'])
            sweeps[same][how] = (measured_s(row), measured_s(row) * (1 + errors[row['id']]))
    return {same: list(sweep.values()) for same, sweep in sweeps.items() if len(sweep) > 1}


def compare_ranks(rows, errors):
    """In each sweep: how far the run that is predicted to be first is from the best, and Kendall's tau over pairs."""
    behind, agree, all_pairs = collections.defaultdict(list), collections.Counter(), collections.Counter()
    for same, sweep in sweeps_of(rows, errors).items():
        first = min(sweep, key=lambda run: run[1])
        behind[same[0]].append(first[0] / min(run[0] for run in sweep) - 1)
        for i, one in enumerate(sweep):
            for other in sweep[:i]:
                if one[0] != other[0]:
                    agree[same[0]] += 1 if (one[0] < other[0]) == (one[1] < other[1]) else -1
                    all_pairs[same[0]] += 1
    for source in sorted(behind):
        print(f'ranking, {source:23} {len(behind[source]):4} sweeps: the first is behind the best by '
              f'{100 * statistics.mean(behind[source]):.1f} % in the mean, {100 * max(behind[source]):.1f} % at most; '
              f'tau {agree[source] / all_pairs[source]:.2f} of {all_pairs[source]} pairs')


def compare_row(row, estimate, device, each, groups, sources, memory, errors):
    name = f'{row["id"]:30} {row["model"]["name"][:18]:18} {(row["hardware"] or "")[:9]:9}'
    if is_timed(row):
        predicted, measured = predicted_s(row, device, estimate), measured_s(row)
        errors[row['id']] = predicted / measured - 1
        groups[group_of(row)].append(predicted / measured - 1)
        sources[row['source']['key']].append(predicted / measured - 1)
        if each:
            print(f'{name} {predicted:9.3f} s, measured {measured:9.3f} s {100 * (predicted / measured - 1):+6.1f} %')
    if measured_bytes(row):
        predicted, measured = predicted_bytes(row, device, estimate), measured_bytes(row)
        memory[row['source']['key']].append(predicted / measured - 1)
        if each:
            print(f'{name} {predicted / GB:9.2f} GB, measured {measured / GB:9.2f} GB '
                  f'{100 * (predicted / measured - 1):+6.1f} %')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', required=True, metavar='FILE')
    parser.add_argument('--peer', metavar='FILE', help="calculon's predictions of the same rows")
    parser.add_argument('--each', action='store_true', help='a line for each row as well')
    parser.add_argument('--only', default='', metavar='TEXT', help='rows whose id has this')
    options = parser.parse_args()
    with open(options.rows, encoding='utf-8') as file:
        rows = [row for row in json.load(file) if is_wanted(row) and options.only in row['id']]
    groups, sources, left = collections.defaultdict(list), collections.defaultdict(list), collections.Counter()
    memory, errors, taken, over = collections.defaultdict(list), {}, [], []
    for row in rows:
        try:
            start = time.monotonic()
            found = estimate_row(row)
            if not found:
                left['no plain transformer, or no such device'] += 1
                continue
            taken.append(time.monotonic() - start)
            if predicted_bytes(row, found[1], found[0]) > found[1]['memory_bytes']:
                over.append(row['id'])
            compare_row(row, *found, options.each, groups, sources, memory, errors)
        except weir.WeirError as why:
            left[str(why)] += 1
    if taken:
        print(f'{len(taken)} rows, {1e3 * statistics.median(taken):.2f} ms for an estimate in the median')
    if over:
        print(f'said not to fit, and ran: {len(over)} rows: ' + ', '.join(over[:10]))
    for why, count in left.items():
        print(f'left out: {count} rows: {why}')
    for source in sorted(sources):
        show(source, sources[source])
    print()
    for source in sorted(memory):
        show(f'memory, {source}', memory[source])
    print()
    compare_ranks(rows, errors)
    print()
    if options.peer:
        compare_peer(options.peer, errors)
        print()
    constant = collections.defaultdict(list)
    for group, error in constant_errors(rows, errors):
        constant[group].append(error)
    for group in sorted(constant):
        show(f'one efficiency, {group}', constant[group])
    print()
    for group in sorted(groups):
        show(group, groups[group])
    return 0


if __name__ == '__main__':
    sys.exit(main())
