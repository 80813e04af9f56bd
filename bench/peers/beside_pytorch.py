"""What the comparisons with PyTorch share: whether it is here, Weir's side, turns, and the best of runs."""

import importlib.util
import os
import subprocess
import sys
import time

RUNS = 5


def has_pytorch():
    """Says so where it is not."""
    found = importlib.util.find_spec('torch') is not None
    if not found:
        print(f'{os.path.basename(sys.argv[0])}: no PyTorch here (pip install torch, or set PYTHONPATH to where it is)')
    return found


class Weir:
    def __init__(self, build):
        self.process = subprocess.Popen([f'{build}/bench/bench_layers', 'cpu'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, 'OMP_NUM_THREADS': '1'})

    def times(self, kind, numbers):
        self.process.stdin.write(f'{kind} ' + ' '.join(map(str, numbers)) + '\n')
        return [float(ns) for ns in self.process.stdout.readline().split()]


class PyTorch:
    """Its kinds are methods."""

    def __init__(self):
        import torch
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.torch = torch

    def times(self, kind, numbers):
        return getattr(self, kind)(numbers)


def sides_of(peer):
    """Weir and its peer, and how many rounds: as the command line has them."""
    build = sys.argv[1] if len(sys.argv) > 1 else 'build/release'
    return (Weir(build), peer()), int(sys.argv[2]) if len(sys.argv) > 2 else 15


def best_ns(run):
    run()
    taken = []
    for _ in range(RUNS):
        start = time.thread_time_ns()
        run()
        taken.append(time.thread_time_ns() - start)
    return min(taken)


def take_turns(sides, rounds, kind, cases):
    """Of each case, Weir's times and PyTorch's, a list for each round."""
    turns = {case: ([], []) for case in cases}
    for _ in range(rounds):
        for case, taken in turns.items():
            for side, times in zip(sides, taken):
                times.append(side.times(kind, case))
    return turns
