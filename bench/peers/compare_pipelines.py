#!/usr/bin/env python3
"""Two stages of Weir against the best of PyTorch's schedules on two processes, in one run.

    compare_pipelines.py [BUILD]        (default: build/release)

Weir profiles, plans by 1f1b and trains (bench/bench_pipeline); PyTorch trains by each
schedule of pipeline_pytorch.py. Both do so in fp32 and in bf16, PyTorch by
torch.autocast. All take turns, so that whatever else the machine does falls on all
alike. Per model the medians of the rounds' tokens per second are printed, Weir's in
fp32 over that of PyTorch's best schedule in fp32, and Weir's in bf16 over PyTorch's best
of both. Needs PyTorch where this Python finds it (pip install torch, PYTHONPATH); says
so and exits with 1 when it is not there.
"""

import os
import re
import statistics
import subprocess
import sys

from beside_pytorch import has_pytorch

ROUNDS = 3
MODELS = {'gpt-nano': (16 * 4 * 128, 5), 'gpt-10m': (16 * 2 * 128, 2)}  # tokens and counted steps of PyTorch's
DEVICES = {'fp32': 'cpu', 'bf16': 'cpu:bf16'}
SCHEDULES = ('gpipe', '1f1b', 'interleaved', 'zb1p', 'zb-v', 'dualpipe-v')


def output(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    if not has_pytorch():
        return 1
    build = sys.argv[1] if len(sys.argv) > 1 else 'build/release'
    here = os.path.dirname(os.path.abspath(__file__))
    for model, (tokens, steps) in MODELS.items():
        rates = {(name, dtype): [] for name in ('weir', *SCHEDULES) for dtype in DEVICES}
        for _ in range(ROUNDS):
            for dtype, device in DEVICES.items():
                said = output([f'{build}/bench/bench_pipeline', model, '3', device])
                rates['weir', dtype].append(tokens / float(re.search(r'two stages +([0-9.]+) ms', said).group(1)) * 1e3)
                for schedule in SCHEDULES:
                    said = output([sys.executable, f'{here}/pipeline_pytorch.py', model, schedule, str(steps), dtype])
                    rates[schedule, dtype].append(float(re.search(r'([0-9]+) tokens/s', said).group(1)))
        medians = {side: statistics.median(values) for side, values in rates.items()}
        peers = {side: rate for side, rate in medians.items() if side[0] != 'weir'}
        print(f'{model}: tokens/s, medians of {ROUNDS} rounds: '
              + ', '.join(f'{name} {dtype} {rate:.0f}' for (name, dtype), rate in medians.items()))
        for dtype in DEVICES:
            those = {side: rate for side, rate in peers.items() if dtype == 'bf16' or side[1] == 'fp32'}
            best = max(those, key=those.get)
            print(f'{model}: Weir in {dtype} is {medians["weir", dtype] / those[best]:.2f} times PyTorch\'s best, '
                  + ' in '.join(best), flush=True)
    return 0


sys.exit(main())
