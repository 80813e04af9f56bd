#!/usr/bin/env python3
"""Weir's embedding tables against PyTorch's EmbeddingBag, one thread each, in one run: lookups, and updates of rows.

    compare_tables.py [BUILD [ROUNDS]]        (default: build/release, 15)

The two take turns, case by case, as in compare_layers.py. Weir looks up in all tables at once, which are one matrix.
PyTorch does so too, or table by table; the faster of the two counts. Ids are uniform, so that hardly a row is in a cache.

An update is the backward of the lookup and the optimizer's step, by gradients of the rows that have one: in PyTorch
with EmbeddingBag(sparse=True) and torch.optim's SGD, Adagrad or SparseAdam, of all tables as one matrix or table by
table, again whichever is faster.

A number over 1 means that Weir is faster. Needs PyTorch where this Python finds it (pip install torch, PYTHONPATH);
exits with 1 when it is not there.
"""

import statistics
import sys
import time

from beside_pytorch import RUNS, PyTorch, best_ns, has_pytorch, sides_of, take_turns

# Tables, rows and columns of each, samples, ids in each slot.
CASES = [(8, 100_000, 32, 2048, 1), (8, 100_000, 32, 2048, 10)]
UPDATES = [(8, 100_000, 32, 2048, 1), (1, 1_000_000, 32, 20_480, 1)]
# As Weir answers, and the peer of each.
OPTIMIZERS = [('sgd', 'SGD'), ('adagrad', 'Adagrad'), ('adagrad-rows', 'Adagrad'), ('adam-rows', 'SparseAdam')]


class Tables(PyTorch):
    def bags(self, case):
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
            return [min(best_ns(by_table), best_ns(at_once))]

    def update(self, case):
        torch = self.torch
        tables, rows, columns, samples, ids = case
        chosen = torch.randint(rows, (samples, tables, ids))
        whole = chosen + rows * torch.arange(tables)[:, None]
        each = [(rows, chosen[:, t].reshape(-1, ids)) for t in range(tables)]
        at_once = [(tables * rows, whole.reshape(-1, ids))]
        return [min(self.update_ns(peer, columns, lists) for lists in (each, at_once)) for _, peer in OPTIMIZERS]

    def update_ns(self, peer, columns, lists):
        torch = self.torch
        bags = [torch.nn.EmbeddingBag(rows, columns, mode='sum', sparse=True) for rows, _ in lists]
        optimizer = getattr(torch.optim, peer)([bag.weight for bag in bags], lr=0.1)
        gradients = [torch.randn(len(ids), columns) for _, ids in lists]
        best = None
        for _ in range(RUNS + 1):
            optimizer.zero_grad()
            outputs = [bag(ids) for bag, (_, ids) in zip(bags, lists)]
            start = time.thread_time_ns()
            torch.autograd.backward(outputs, gradients)
            optimizer.step()
            taken = time.thread_time_ns() - start
            best = taken if best is None else min(best, taken)
        return best


def rates(ids, *times):
    return ' '.join(f'{ids * 1e3 / statistics.median(one):8.1f}' for one in times)


def ratio(ours, theirs):
    return statistics.median(their / our for our, their in zip(ours, theirs))


def compare_lookups(sides, rounds):
    turns = take_turns(sides, rounds, 'bags', CASES)
    print(f'{"lookup in 8 tables":24} {"weir":>8} {"pytorch":>8}  million rows a second; medians of {rounds} rounds')
    for (tables, rows, columns, samples, ids), taken in turns.items():
        ours, theirs = ([times[0] for times in side] for side in taken)
        print(f'{f"{rows:,} x {columns}, {ids} id" + "s" * (ids > 1):24} {rates(tables * samples * ids, ours, theirs)}'
              f'  weir over pytorch {ratio(ours, theirs):.2f}')


def compare_updates(sides, rounds):
    for case in UPDATES:
        tables, rows, columns, samples, ids = case
        taken = take_turns(sides, rounds, 'update', [case])[case]
        what = f'{tables} x {rows:,} x {columns}'
        print(f'{what:24} {"weir":>8} {"pytorch":>8}  million ids a second, backward and update')
        for i, (name, peer) in enumerate(OPTIMIZERS):
            ours, theirs = ([times[i] for times in side] for side in taken)
            print(f'  {name:22} {rates(tables * samples * ids, ours, theirs)}  weir over {peer} {ratio(ours, theirs):.2f}')


def main():
    if not has_pytorch():
        return 1
    sides, rounds = sides_of(Tables)
    compare_lookups(sides, rounds)
    compare_updates(sides, rounds)
    return 0


sys.exit(main())
