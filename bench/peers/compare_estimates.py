#!/usr/bin/env python3
"""Holds estimates against published runs: iteration time and peak memory of every row, and the errors by group.

    bench/peers/compare_estimates.py --rows published_runs.json [--peer calculon_predictions.json] [--each]

Each row's configuration is estimated (weir.estimate), cut into the stages that its parallelism says, and simulated by
its schedule. What a row tells of its framework decides the request, by the rules of published_rows.py and
published_memory.py: nothing is fitted. The last lines are the errors by group.
"""

import argparse
import collections
import json
import statistics
import sys
import time

sys.dont_write_bytecode = True
from published_memory import is_said_to_fit, measured_bytes, predicted_bytes
from published_rows import (DEEPSPEED, blocks_of, degrees_of, derived_of, device_of, devices_of, estimate_row, is_early,
                            layers_again, micro_batches_of, modules_of, products_of, recomputed_share,
                            schedule_named, schedule_of, shard_of, starts_with, weir)

# --- one row -------------------------------------------------------------------------------------------------------

KINDS = ('products_ns', 'attention_ns', 'passes_ns', 'communication_ns', 'host_ns')


def phase_ns(layer, phase):
    return sum(layer[phase][kind] for kind in KINDS)


def accumulated_ns(row, device, layer):
    """DeepSpeed's bf16 optimizer adds each micro-batch's gradients of 2 bytes to those of 4, and zeroes them."""
    bytes_each = 12 if 'bf16-optimizer' in str(row.get('zero')) else 0
    rate = device['memory_bytes_per_second'] * device['memory_permille'] / 1000
    return layer['parameters'] * bytes_each / rate * 1e9


def again_ns(row, layer):
    """Of a layer's forward, what is run again before its backward."""
    if layer['kind'] in ('embedding', 'head'):
        return 0
    if layer['kind'] in layers_again(row):
        return phase_ns(layer, 'forward')
    again = layer['forward']['attention_ns'] if 'core_attn' in modules_of(row) else 0
    return max(again, recomputed_share(row) * phase_ns(layer, 'forward'))


def stage_rows(row, device, estimate, stages):
    """A row of costs for each stage."""
    layers = {layer['kind']: layer for layer in estimate['layers']}
    blocks, count = blocks_of(row, stages), row['model']['layers']
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
            i += times * again_ns(row, layer)
        rows.append({'forward_ns': round(f), 'backward_input_ns': round(i), 'backward_weight_ns': round(w)})
    return rows


def message_ns(row, device, estimate, rank):
    """From a rank to the next, or from the last to the first: pipelines are the outermost of a node's devices."""
    pp = degrees_of(row)[2]
    apart, level = devices_of(row) // pp, device['levels'][0]
    is_within = rank + 1 < pp or devices_of(row) <= level['size']
    if apart >= level['size'] or (rank + 1) * apart % level['size'] == 0 or not is_within:
        level = device['levels'][-1]
    output = next(layer['output_bytes'] for layer in estimate['layers'] if layer['kind'] == 'attention')
    if not row.get('sequence_parallel') and not starts_with(row, *DEEPSPEED):
        output /= degrees_of(row)[0]  # each device of the group sends a part, and the others gather it
    return level['latency_ns'] + output / (level['bytes_per_second'] * level['message_permille'] / 1000) * 1e9


def add_messages(rows, messages):
    """A send waits for its receive, and both for the work between them: after F with the next rank, after B with the
    one before."""
    for stage, cost in enumerate(rows):
        if stage < len(rows) - 1:
            cost['forward_ns'] += round(messages[stage % len(messages)])
        if stage > 0:
            cost['backward_input_ns'] += round(messages[(stage - 1) % len(messages)])


def is_synchronous(row, name):
    """Megatron has overlapped the messages of interleaved schedules since 2023, and never those of others."""
    return name == '1f1b' or name == 'interleaved' and is_early(row)


def simulated_ns(row, device, estimate):
    pp, micro_batches = degrees_of(row)[2], micro_batches_of(row)
    name, chunks = schedule_named(row)
    rows = stage_rows(row, device, estimate, pp * chunks)
    if pp == 1:
        return micro_batches * sum(rows[0].values()), micro_batches, rows
    messages = [message_ns(row, device, estimate, rank) for rank in range(pp)]
    costs = {'format': 'weir.costs', 'version': 1, 'latency_ns': 0, 'costs': rows}
    if is_synchronous(row, name):
        add_messages(rows, messages)
    else:
        costs['latency_ns'] = round(max(messages))
    schedule = schedule_of(name, pp, micro_batches, chunks)
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
    return derived_of(row, 'iteration_s')


# --- groups --------------------------------------------------------------------------------------------------------

def group_of(row):
    if row['model'].get('experts'):
        return 'experts'
    if shard_of(row) == 'weights':
        return 'fsdp'
    return 'dense 8-bit' if products_of(row) else 'dense 16-bit'


def is_usable(row):
    usable = row['source']['key'].startswith(('vtrain', 'zero-bubble')) and row['usable']
    return (row['complete'] or usable) and row['task'] in ('pretrain', 'sft-or-pretrain')


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
        for of in (row['source']['key'], group_of(row)):
            memory[of].append(predicted / measured - 1)
        if each:
            print(f'{name} {predicted / 1e9:9.2f} GB, measured {measured / 1e9:9.2f} GB '
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
            if not is_said_to_fit(row, found[1], found[0]):
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
