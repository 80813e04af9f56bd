#!/usr/bin/env python3
"""Finds the constants of devices (profiler/estimate/devices) again, from what was measured.

    bench/peers/fit_devices.py products KERNELS             rates of products, from AIConfigurator's tables (*.parquet)
    bench/peers/fit_devices.py runs ROWS a100-80 a100-40    the rest, from published runs on these devices
    bench/peers/fit_devices.py runs ROWS a100-80 a100-40 --each-left-out

`runs` begins with the documents as they are (--neutral: with numbers that no run was asked for), moves one constant at
a time up and down while the mean error over all sources falls, and prints where it ends; --write puts that into the
documents. A source counts by the 0.7th power of its rows, at most 40. With --each-left-out it is done once without each
source, which is then predicted: what to expect of a source that was never seen. `products` needs pandas and pyarrow.
"""

import argparse
import collections
import glob
import json
import math
import os
import sys

sys.dont_write_bytecode = True
import compare_estimates as compare
import published_rows as published

# A constant: its places in the document, and between what it may lie.
CONSTANTS = {
    'sustained': ([('sustained_permille',)], 700, 1000),
    'memory': ([('memory_permille',)], 450, 900),
    'kernel': ([('kernel_ns',)], 1000, 6000),
    'host': ([('host_ns',)], 5000, 150000),
    'flash': ([('flash_attention', 'forward_permille'), ('flash_attention', 'backward_permille')], 150, 600),
    'fused': ([('fused_attention', 'forward_permille'), ('fused_attention', 'backward_permille')], 200, 800),
    'links': ([('levels', 0, 'permille')], 400, 950),
    'link latency': ([('levels', 0, 'latency_ns')], 3000, 40000),
    'network': ([('levels', 1, 'permille')], 400, 950),
    'network latency': ([('levels', 1, 'latency_ns')], 5000, 40000),
    'messages': ([('levels', 1, 'message_permille')], 400, 950),
    'fp8': ([('products', 'fp8', 'permille')], 300, 860),
    'fp4': ([('products', 'fp4', 'permille')], 300, 860),
}
NEUTRAL = {'sustained': 900, 'memory': 700, 'kernel': 4000, 'host': 30000, 'flash': 400, 'fused': 500, 'links': 750,
           'link latency': 15000, 'network': 750, 'network latency': 15000, 'messages': 750, 'fp8': 600, 'fp4': 500}
NOT_ASKED = ('sc21-table2', 'megatron-ci')  # ZeRO-3 of 2021, and runs for debugging
FIRST_STEP, LEAST_STEP, MOST_ROWS, POWER = 0.15, 0.01, 40, 0.7


def place(document, path):
    for part in path[:-1]:
        document = document[part]
        if isinstance(path[1], str) and path[0] == 'products' and isinstance(document, list):
            return next((entry for entry in document if entry['dtype'] == path[1]), None), path[-1]
    return document, path[-1]


def places(documents, name):
    found = [place(document, path) for document in documents for path in CONSTANTS[name][0]]
    return [(where, key) for where, key in found if where is not None]


def errors_of(rows):
    """(source, predicted / measured) of each row's time, with what it says of itself."""
    errors = []
    for row in rows:
        judgement = published.judge_row(row, with_facts=True)
        if judgement:
            errors.append((row['source']['key'], judgement['iteration_ns'] / 1e9 / compare.measured_s(row)))
    return errors


def loss_of(rows):
    by_source = collections.defaultdict(list)
    for source, ratio in errors_of(rows):
        by_source[source].append(min(abs(math.log(max(ratio, 0.05))), 0.6))
    weights = {source: min(len(found), MOST_ROWS) ** POWER for source, found in by_source.items()}
    return sum(weights[source] * sum(found) / len(found) for source, found in by_source.items()) / sum(weights.values())


def move(documents, name, factor):
    """Moves a constant; returns what puts it back."""
    least, most = CONSTANTS[name][1:]
    before = [(where, key, where[key]) for where, key in places(documents, name)]
    for where, key, value in before:
        where[key] = min(max(round(value * factor), least), most)
    return before


def put_back(before):
    for where, key, value in before:
        where[key] = value


def fit(documents, rows, rounds):
    best, steps = loss_of(rows), {name: FIRST_STEP for name in CONSTANTS if places(documents, name)}
    for _ in range(rounds):
        for name in steps:
            for factor in (1 + steps[name], 1 - steps[name]):
                before = move(documents, name, factor)
                loss = loss_of(rows)
                if loss < best:
                    best = loss
                    break
                put_back(before)
            else:
                steps[name] = max(steps[name] / 2, LEAST_STEP)
    return best


def set_neutral(documents):
    for name, value in NEUTRAL.items():
        for where, key in places(documents, name):
            where[key] = round(value * 0.8) if key == 'backward_permille' else value


def show(title, documents):
    print(title + ': ' + ', '.join(f'{name} {places(documents, name)[0][0][places(documents, name)[0][1]]}'
                                   for name in CONSTANTS if places(documents, name)), flush=True)


def canonical(document):
    """As Weir writes it: lists and objects within on one line."""
    def inline(entry):
        return '{' + ', '.join(f'"{key}": {json.dumps(value)}' for key, value in entry.items()) + '}'
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            value = inline(value)
        elif isinstance(value, list):
            value = '[\n' + ',\n'.join('    ' + inline(entry) for entry in value) + '\n  ]'
        else:
            value = json.dumps(value)
        lines.append(f'  "{key}": {value}')
    return '{\n' + ',\n'.join(lines) + '\n}\n'


def leave_out_each(documents, rows, rounds):
    for source in sorted({row['source']['key'] for row in rows}):
        set_neutral(documents)
        fit(documents, [row for row in rows if row['source']['key'] != source], rounds)
        unseen = [ratio - 1 for _, ratio in errors_of([row for row in rows if row['source']['key'] == source])]
        if unseen:  # else its models are none that are estimated
            compare.show('never seen: ' + source, unseen)
            sys.stdout.flush()


def fit_runs(options):
    documents = [published.device_document(name) for name in options.devices]
    with open(options.rows, encoding='utf-8') as file:
        rows = [row for row in json.load(file) if compare.is_usable(row) and compare.is_timed(row)
                and row['source']['key'] not in NOT_ASKED
                and (published.device_of(row) or {}).get('name') in options.devices]
    if options.each_left_out:
        return leave_out_each(documents, rows, options.rounds)
    if options.neutral:
        set_neutral(documents)
    show(f'{len(rows)} rows, error {loss_of(rows):.4f}', documents)
    show(f'error {fit(documents, rows, options.rounds):.4f}', documents)
    for document in documents if options.write else ():
        with open(os.path.join(published.DEVICES, document['name'] + '.json'), 'w', encoding='utf-8') as file:
            file.write(canonical(document))


# --- products ------------------------------------------------------------------------------------------------------

PEAKS = {'a100': (312e12, 2.039e12, 108), 'h100': (989e12, 3.35e12, 132), 'h200': (989e12, 4.8e12, 132),
         'b200': (2250e12, 7.7e12, 148), 'gb200': (2450e12, 8e12, 148)}
TILE = 128


def fit_products(options):
    """By trying a grid: rate, what waves lose, what a kernel takes. Bytes go at 0.7 of the memory's rate."""
    import numpy
    import pandas
    for path in sorted(glob.glob(os.path.join(options.kernels, '*_gemm_*.parquet'))):
        name = os.path.basename(path)
        peak, memory, multiprocessors = PEAKS[name.split('_')[0]]
        table = pandas.read_parquet(path)
        table = table[(table.gemm_dtype == 'bfloat16') & (table[['m', 'n', 'k']].min(axis=1) >= 256)]
        table = table.groupby(['m', 'n', 'k']).latency.min().reset_index()
        m, n, k, measured = (table[column].to_numpy(float) for column in ('m', 'n', 'k', 'latency'))
        waves = numpy.ceil(m / TILE) * numpy.ceil(n / TILE) / multiprocessors
        read = 2 * (m * k + n * k + m * n) / memory / 0.7
        best = (math.inf,)
        for rate in numpy.arange(0.6, 0.92, 0.02):
            for lost in numpy.arange(0, 1.01, 0.1):
                work = numpy.maximum(waves + lost * (numpy.ceil(waves) - waves), 1) * multiprocessors
                work = numpy.maximum(work * 2 * TILE * TILE * k / (peak * rate), read)
                for kernel in (2e-6, 3e-6, 4e-6, 5e-6, 6e-6, 8e-6):
                    error = numpy.mean(numpy.abs((work + kernel) / (measured / 1e3) - 1))
                    best = min(best, (error, rate, lost, kernel))
        print(f'{name}: {len(m)} products, {100 * best[0]:.1f} % off: permille {1000 * best[1]:.0f}, wave_permille '
              f'{1000 * best[2]:.0f}, kernel_ns {1e9 * best[3]:.0f}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    products = kinds.add_parser('products')
    products.add_argument('kernels')
    products.set_defaults(run=fit_products)
    runs = kinds.add_parser('runs')
    runs.add_argument('rows')
    runs.add_argument('devices', nargs='+')
    runs.add_argument('--rounds', type=int, default=6)
    runs.add_argument('--neutral', action='store_true')
    runs.add_argument('--each-left-out', action='store_true')
    runs.add_argument('--write', action='store_true')
    runs.set_defaults(run=fit_runs)
    options = parser.parse_args()
    options.run(options)
    return 0


if __name__ == '__main__':
    sys.exit(main())
