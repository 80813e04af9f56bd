#!/usr/bin/env python3
"""Weir's lookup in embedding tables against PyTorch's EmbeddingBag, one thread each, in one run.

    compare_tables.py [BUILD [ROUNDS]]        (default: build/release, 15)

The two take turns, case by case, as in compare_layers.py. Weir looks up in all tables at once, which are one matrix.
PyTorch does so too, or table by table; the faster of the two counts. Ids are uniform, so that hardly a row is in a cache.

A number over 1 means that Weir is faster. Needs PyTorch where this Python finds it (pip install torch, PYTHONPATH);
exits with 1 when it is not there.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import time

RUNS = 5
# Tables, rows and columns of each, samples, ids in each slot.
CASES = [(8, 100_000, 32, 2048, 1), (8, 100_000, 32, 2048, 10)]


class Weir:
    def __init__(self, build):
        self.process = subprocess.Popen([f'{build}/bench/bench_layers', 'cpu'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def time(self, case):
        self.process.stdin.write('bags ' + ' '.join(map(str, case)) + '\n')
        return float(self.process.stdout.readline().split()[0])


class PyTorch:
    def __init__(self):
        import torch
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.torch = torch

    def time(self, case):
        torch = self.torch
        tables, rows, columns, samples, ids = case
        bag = torch.nn.functional.embedding_bag
        weights = torch.randn(tables * rows, columns)
        of_tables = weights.split(rows)
        chosen = torch.randint(rows, (samples, tables, ids), dtype=torch.int32)
        offsets = torch.arange(0, samples * ids, ids, dtype=torch.int32)
        each = [chosen[:, t].reshape(-1).contiguous() for t in range(tables)]
        whole = (chosen + rows * torch.arange(tables, dtype=torch.int32)[:, None]).reshape(-1).contiguous()
        all_offsets = torch.arange(0, samples * tables * ids, ids, dtype=torch.int32)

        def by_table():
            return [bag(one, of, offsets, mode='sum') for one, of in zip(each, of_tables)]

        def at_once():
            return bag(whole, weights, all_offsets, mode='sum')

        with torch.no_grad():
            return min(best_ns(by_table), best_ns(at_once))


def best_ns(run):
    run()
    taken = []
    for _ in range(RUNS):
        start = time.thread_time_ns()
        run()
        taken.append(time.thread_time_ns() - start)
    return min(taken)


def main():
    if importlib.util.find_spec('torch') is None:
        print('compare_tables.py: no PyTorch here (pip install torch, or set PYTHONPATH to where it is)')
        return 1
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join('build', 'release')
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    sides = Weir(build), PyTorch()
    turns = {case: ([], []) for case in CASES}
    for _ in range(rounds):
        for case, taken in turns.items():
            for side, times in zip(sides, taken):
                times.append(side.time(case))
    print(f'{"lookup in 8 tables":24} {"weir":>8} {"pytorch":>8}  million rows a second; medians of {rounds} rounds')
    for case, (ours, theirs) in turns.items():
        tables, rows, columns, samples, ids = case
        looked_up = tables * samples * ids
        rates = ' '.join(f'{looked_up * 1e3 / statistics.median(times):8.1f}' for times in (ours, theirs))
        ratio = statistics.median(their / our for our, their in zip(ours, theirs))
        print(f'{f"{rows:,} x {columns}, {ids} id" + "s" * (ids > 1):24} {rates}  weir over pytorch {ratio:.2f}')
    return 0


sys.exit(main())
