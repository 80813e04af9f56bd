"""What a published run keeps on its fullest device: the bytes of weir.estimate and of a simulated schedule, with what
the run's framework keeps besides, as its source reports it. For compare_estimates.py.

Three things are reported: what PyTorch's allocator had given out at most (Megatron's tests, NVIDIA's logs, Zero Bubble,
whose code prints it), what it had reserved (torchtitan), what the device had in use (BLOOM, by nvidia-smi; InternEvo,
which does not say).
"""

import re

from published_rows import (blocks_of, degrees_of, layers_again, loss_of, micro_batches_of, schedule_named,
                            schedule_of, shard_of, starts_with, words_of)

MIB = 2**20

# What the allocator reserves beyond what it has given out, in thousandths: the mean of three runs whose model cards
# print both (Megatron-Bridge: 59.0 and 69.3 GiB, 72.07 and 75.34, 156.9 and 161.3).
CACHED_PERMILLE = 83

# Workspaces that PyTorch's cuBLAS and Transformer Engine have for good: from Hopper on 32 MiB each, before it 8 and 4
# (CublasHandlePool.cpp; transformer_engine/pytorch/module/base.py).
WORKSPACE, EARLY_WORKSPACE = 64 * MIB, 12 * MIB

NVIDIA = ('megatron-bridge', 'bridge', 'nemo', 'dgxc')


# --- weights, gradients and the optimizer's state --------------------------------------------------------------------

def bytes_each(row):
    """Of a parameter: what each device holds whole, and what all that have it hold once between them."""
    if starts_with(row, 'internevo'):  # a copy, moments and, while it steps, gradients of 4 bytes; beside 4 of 2 bytes
        return (0, 20) if shard_of(row) == 'weights' else (4, 16)
    if shard_of(row) == 'weights':  # PyTorch's FSDP: weights, gradients and two moments of 4 bytes
        return 0, 16
    if starts_with(row, 'bloom'):  # DeepSpeed: its bf16 optimizer adds up in 4 bytes, ZeRO-1 widens a share of fp16's
        return (8, 12) if 'bf16-optimizer' in str(row.get('zero')) else (4, 16)
    if starts_with(row, *NVIDIA):  # recipes that add up in 2 bytes, and for latent attention have moments of 2
        return 4, 8 if row['model'].get('attention') == 'mla' else 12
    # Megatron adds up the gradients of bf16 in 4 bytes, those of fp16 as they are (arguments.py).
    whole = 4 if row.get('dtype') in ('fp16', None) else 6
    return (whole, 12) if row.get('zero') else (whole + 12, 0)


def expert_tensor(row):
    """Devices that share an expert: as many as share a layer, where Megatron is told nothing else."""
    return row.get('etp') or (degrees_of(row)[0] if starts_with(row, 'megatron-ci') else 1)


def state_bytes(row, layer):
    tp, cp, pp, dp = degrees_of(row)
    whole, shared = bytes_each(row)
    experts = layer['expert_parameters'] / expert_tensor(row)
    plain = layer['parameters'] - layer['expert_parameters']
    alike = max(1, dp * cp * tp // ((row.get('ep') or 1) * expert_tensor(row)))
    return plain * (whole + shared / (dp * cp)) + experts * (whole + shared / alike)


def gathered_bytes(row, layers):
    """FSDP gathers the largest layer into a buffer, of 2 bytes, and copies it to where it is read."""
    if shard_of(row) != 'weights':
        return 0
    return 2 * 2 * max(layer['parameters'] for layer in layers.values())


# --- what waits for its backward -------------------------------------------------------------------------------------

def is_by_operation(row):
    return any(words in (row.get('recompute') or '') for words in ('per op', 'every op', 'selective op'))


def kept_by_operation(row):
    """Of a block, by torchtitan's policy: its input, what attention gives, and every other product: queries, values,
    one way up, and the way down, of which a compiler sees that nobody reads it."""
    model = row['model']
    tp, cp = degrees_of(row)[:2]
    values = (model.get('kv_heads') or model['heads']) * model['hidden'] // model['heads']
    numbers = (3 if row.get('compile') else 4) * model['hidden'] + values + model['ffn']
    return row['micro_batch'] * model['seq'] / cp / tp * (2 * numbers + 4 * model['heads'])


def kept_bytes(row, layer):
    """Of a micro-batch in a layer, with the layer's input, which is as large as its output."""
    kind = layer['kind']
    if kind == 'head':
        return 0
    if kind == 'embedding':
        return layer['saved_bytes']
    if is_by_operation(row):
        return kept_by_operation(row) / 2  # of a block's two layers
    if kind not in layers_again(row):
        return layer['saved_bytes'] + layer['output_bytes']
    is_in_block = kind not in ('attention', 'windowed')  # whose input is not the block's
    return 0 if row['recompute'] == 'full' and is_in_block else layer['output_bytes']


def said_in(row):
    """Year and month in the name of the document: "llama3_h100_202412_torchtitan.md"."""
    found = re.search(r'_(20\d{4})_', row['source']['where'])
    return int(found.group(1)) if found else 0


# FlashAttention's loss, of llm-foundry and InternEvo, has a gradient beside the logits.
LOSS_OF_TWO = ('mosaic', 'internevo')


def loss_bytes(row, head):
    """Of the logits at a time: as the estimate has it, and what is peculiar to some."""
    tp, cp = degrees_of(row)[:2]
    logits = row['micro_batch'] * row['model']['seq'] / cp * words_of(row) / tp
    if starts_with(row, *LOSS_OF_TWO) or row.get('compile') and said_in(row) >= 202503:  # compiled with the loss
        return 2 * 2 * logits
    besides = 0
    if 'cross_entropy_loss_fusion' in row['model']['name']:  # a compiler makes copies of what Megatron does in place
        besides = 4
    if loss_of(row) == 'plain':  # DTensor's has one more; logits are freed before the backward, and stay reserved
        besides = (4 if tp > 1 else 0) + (2 if report_of(row) == 'reserved' else 0)
    return head['saved_bytes'] + head['backward_workspace_bytes'] + besides * logits


def backward_bytes(row, layers):
    """What a backward needs for a moment: gradients within a layer, and what of a block is run again."""
    most = max(layer['held_for_weight_bytes'] + layer['backward_workspace_bytes']
               for kind, layer in layers.items() if kind not in ('embedding', 'head'))
    again = sum(layers[kind]['saved_bytes'] for kind in ('attention', 'mlp', 'experts')  # a window changes no bytes
                if kind in layers and kind in layers_again(row))
    return most + again


# --- all of it -------------------------------------------------------------------------------------------------------

def stage_numbers(row, layers, stages):
    """Rows of costs that have bytes alone, of each stage."""
    blocks, rows = blocks_of(row, stages), []
    for stage in range(stages):
        fixed = kept = held = 0
        for kind, layer in layers.items():
            times = layer['count'] * blocks[stage] / row['model']['layers']
            if kind in ('embedding', 'head'):
                times = int(stage == (0 if kind == 'embedding' else stages - 1))
            here = max(0, 1 - (row.get('cpu_offload_layers') or 0) / (blocks[stage] or 1))  # not on the host
            fixed += times * state_bytes(row, layer)
            kept += times * here * kept_bytes(row, layer)
            held += times * layer['held_for_weight_bytes']
        rows.append({'forward_ns': 1, 'backward_input_ns': 1, 'backward_weight_ns': 1, 'fixed_bytes': round(fixed),
                     'kept_forward_bytes': round(kept + deepspeed_bytes(row, layers)),
                     'kept_weight_bytes': round(min(held, kept)),
                     'transient_bytes': round(backward_bytes(row, layers))})
    rows[-1]['transient_bytes'] = max(rows[-1]['transient_bytes'], round(loss_bytes(row, layers['head'])))
    if stages > 1 and layers['head']['parameters'] < layers['embedding']['parameters'] / 2:
        rows[-1]['fixed_bytes'] += round(state_bytes(row, layers['embedding']))  # a copy of the table that it reads
    return rows


def deepspeed_bytes(row, layers):
    """Its pipeline engine keeps what a stage has handed on until the backward, whole."""
    return layers['attention']['output_bytes'] if starts_with(row, 'bloom') else 0


def rank_bytes(row, estimate):
    """What the allocator has given out on each rank at most."""
    layers = {layer['kind']: layer for layer in estimate['layers']}
    pp = degrees_of(row)[2]
    name, chunks = schedule_named(row)
    rows = stage_numbers(row, layers, pp * chunks)
    if pp == 1:
        peaks = [rows[0]['fixed_bytes'] + rows[0]['kept_forward_bytes'] + rows[0]['transient_bytes']]
    else:
        schedule = schedule_of(name, pp, min(micro_batches_of(row), 4 * pp), chunks)  # more keep no more
        costs = {'format': 'weir.costs', 'version': 1, 'latency_ns': 0, 'costs': rows}
        peaks = [rank['live_peak_bytes'] for rank in schedule.simulate(costs).document['per_rank']]
    besides = gathered_bytes(row, layers)
    besides += EARLY_WORKSPACE if row['hardware'].startswith(('A100', 'A800', 'V100')) else WORKSPACE
    return [peak + besides for peak in peaks]


def allocated_bytes(row, estimate):
    """Of the ranks that the source has looked at: the last, the first and the last nodes, or all."""
    ranks = rank_bytes(row, estimate)
    if 'peak_gib_last_rank' in row['result']:
        return ranks[-1]
    return max(ranks[0], ranks[-1]) if starts_with(row, 'bloom') else max(ranks)


def report_of(row):
    """What its source prints."""
    if starts_with(row, 'torchtitan'):
        return 'reserved'
    return 'in use' if starts_with(row, 'bloom', 'internevo') else 'allocated'


def predicted_bytes(row, device, estimate):
    report, allocated = report_of(row), allocated_bytes(row, estimate)
    if report == 'allocated':
        return allocated
    reserved = allocated * (1 + CACHED_PERMILLE / 1000)
    return reserved + (device['reserved_bytes'] if report == 'in use' else 0)


def is_said_to_fit(row, device, estimate):
    """The allocator hands back what it has cached before it fails, so that what it gives out has to fit."""
    return allocated_bytes(row, estimate) + device['reserved_bytes'] <= device['memory_bytes']


def measured_bytes(row):
    result = row['result']
    for key, unit in (('peak_gb', 1e9), ('peak_gib', 2**30), ('peak_gib_last_rank', 2**30)):
        if result.get(key):
            return result[key] * unit
    return None
