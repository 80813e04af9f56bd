#!/usr/bin/env python3
"""Holds judgements against published runs: iteration time and peak memory of every row, and the errors by group.

    bench/peers/compare_estimates.py --rows published_runs.json [--peer calculon_predictions.json] [--each]

Each row's layout is judged (weir.judge) as its framework has it, twice: with what the row says of itself besides
(published_rows.py), such as its graphs, and by the framework's facts alone. Nothing is fitted. The last lines are the errors
by group.
"""

import argparse
import collections
import json
import statistics
import sys
import time

sys.dont_write_bytecode = True
from published_memory import measured_bytes, predicted_bytes
from published_rows import derived_of, device_of, judge_row, products_of, shard_of, weir

def measured_s(row):
    result = row['result']
    if 'iteration_s' in result:
        return result['iteration_s']
    return derived_of(row, 'iteration_s')


# --- groups --------------------------------------------------------------------------------------------------------

def group_of(row):
    if row['model'].get('hybrid_pattern'):
        return 'hybrid'
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


class Errors:
    """Of one way to judge the rows: (predicted / measured - 1) of each."""

    def __init__(self):
        self.time, self.memory, self.over = {}, {}, []
        self.left, self.taken = collections.Counter(), []

    def by(self, errors, rows, key):
        found = collections.defaultdict(list)
        for row in rows:
            if row['id'] in errors:
                found[key(row)].append(errors[row['id']])
        return found


def show(name, errors):
    size = [abs(error) for error in errors]
    within = sum(error <= 0.2 for error in size) / len(size)
    print(f'{name:32} {len(size):4} rows  mean {100 * statistics.mean(size):5.1f} %  median '
          f'{100 * statistics.median(size):5.1f} %  within 20 %: {100 * within:3.0f} %  bias '
          f'{100 * statistics.mean(errors):+6.1f} %')


def show_both(name, stated, alone):
    """With what rows say besides, and as the framework has it alone."""
    show(name, stated)
    means = [100 * statistics.mean(abs(error) for error in errors) for errors in (stated, alone)]
    if round(means[0], 1) != round(means[1], 1):
        print(f'{"  the framework alone":32} {len(alone):4} rows  mean {means[1]:5.1f} %  median '
              f'{100 * statistics.median(abs(error) for error in alone):5.1f} %  bias '
              f'{100 * statistics.mean(alone):+23.1f} %')


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
            tflops = row['derived']['model_tflops_causal'] * (1 + (row.get('recompute') == 'full') / 3) * bubble
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


# --- all of them ---------------------------------------------------------------------------------------------------

def judge_rows(rows, with_facts, each):
    errors = Errors()
    for row in rows:
        try:
            start = time.monotonic()
            judgement = judge_row(row, with_facts)
        except weir.WeirError as why:
            errors.left[str(why)] += 1
            continue
        if not judgement:
            errors.left['no plain transformer, or no such device'] += 1
            continue
        errors.taken.append(time.monotonic() - start)
        if not judgement['fits']:
            errors.over.append(row['id'])
        note_row(row, judgement, errors, each)
    return errors


def note_row(row, judgement, errors, each):
    name = f'{row["id"]:30} {row["model"]["name"][:18]:18} {(row["hardware"] or "")[:9]:9}'
    if is_timed(row):
        predicted, measured = judgement['iteration_ns'] / 1e9, measured_s(row)
        errors.time[row['id']] = predicted / measured - 1
        if each:
            print(f'{name} {predicted:9.3f} s, measured {measured:9.3f} s {100 * (predicted / measured - 1):+6.1f} %')
    if measured_bytes(row):
        predicted, measured = predicted_bytes(row, judgement), measured_bytes(row)
        errors.memory[row['id']] = predicted / measured - 1
        if each:
            print(f'{name} {predicted / 1e9:9.2f} GB, measured {measured / 1e9:9.2f} GB '
                  f'{100 * (predicted / measured - 1):+6.1f} %')


def show_all(rows, stated, alone, what, key, title=''):
    ours, theirs = (errors.by(getattr(errors, what), rows, key) for errors in (stated, alone))
    for name in sorted(ours):
        show_both(title + name, ours[name], theirs[name])
    print()


def show_spreads(rows, errors, what):
    """What runs took by what was predicted: the numbers of estimate_profile.c, and the room of config_judge.c."""
    for name, found in sorted(errors.by(getattr(errors, what), rows, group_of).items()):
        ratios = sorted(1 / (1 + error) for error in found)
        at = [ratios[min(int(share * len(ratios)), len(ratios) - 1)] for share in (0.05, 0.9, 0.95)]
        print(f'{what} of {name}: nineteen of twenty took {at[0]:.3f} or more, nine of ten {at[1]:.3f} or less, nineteen '
              f'{at[2]:.3f} or less')


def source_of(row):
    return row['source']['key']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', required=True, metavar='FILE')
    parser.add_argument('--peer', metavar='FILE', help="calculon's predictions of the same rows")
    parser.add_argument('--each', action='store_true', help='a line for each row as well')
    parser.add_argument('--only', default='', metavar='TEXT', help='rows whose id has this')
    options = parser.parse_args()
    with open(options.rows, encoding='utf-8') as file:
        rows = [row for row in json.load(file) if is_wanted(row) and options.only in row['id']]
    stated, alone = judge_rows(rows, True, options.each), judge_rows(rows, False, False)
    if stated.taken:
        print(f'{len(stated.taken)} rows, {1e3 * statistics.median(stated.taken):.2f} ms for a judgement in the median')
    if stated.over:
        print(f'said not to fit, and ran: {len(stated.over)} rows: ' + ', '.join(stated.over[:10]))
    for why, count in stated.left.items():
        print(f'left out: {count} rows: {why}')
    show_all(rows, stated, alone, 'time', source_of)
    show_all(rows, stated, alone, 'memory', source_of, 'memory, ')
    show_all(rows, stated, alone, 'memory', group_of, 'memory, ')
    compare_ranks(rows, stated.time)
    print()
    if options.peer:
        compare_peer(options.peer, stated.time)
        print()
    constant = collections.defaultdict(list)
    for group, error in constant_errors(rows, stated.time):
        constant[group].append(error)
    for group in sorted(constant):
        show(f'one efficiency, {group}', constant[group])
    print()
    show_spreads(rows, stated, 'memory')
    show_spreads(rows, stated, 'time')
    print()
    show_all(rows, stated, alone, 'time', group_of)
    return 0


if __name__ == '__main__':
    sys.exit(main())
