#!/usr/bin/env python3
"""Two stages of Weir against the best of PyTorch's schedules on two processes, in one run.

    compare_pipelines.py [BUILD]        (default: build/release)

Weir profiles, plans by 1f1b and trains (bench/bench_pipeline); PyTorch trains by each
schedule of pipeline_pytorch.py. All take turns, so that whatever else the machine does
falls on all alike; per model the medians of the rounds' tokens per second are printed,
and Weir's over that of PyTorch's best schedule. Needs PyTorch where this Python finds it
(pip install torch, PYTHONPATH); says so and exits with 1 when it is not there.
"""

import importlib.util
import os
import re
import statistics
import subprocess
import sys

ROUNDS = 3
MODELS = {'gpt-nano': (16 * 4 * 128, 5), 'gpt-10m': (16 * 2 * 128, 2)}  # tokens and counted steps of PyTorch's
SCHEDULES = ('gpipe', '1f1b', 'interleaved', 'zb1p', 'zb-v', 'dualpipe-v')


def output(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    if importlib.util.find_spec('torch') is None:
        print('compare_pipelines.py: no PyTorch here (pip install torch, or set PYTHONPATH to where it is)')
        return 1
    build = sys.argv[1] if len(sys.argv) > 1 else 'build/release'
    here = os.path.dirname(os.path.abspath(__file__))
    for model, (tokens, steps) in MODELS.items():
        rates = {name: [] for name in ('weir', *SCHEDULES)}
        for _ in range(ROUNDS):
            two_stages = re.search(r'two stages +([0-9.]+) ms', output([f'{build}/bench/bench_pipeline', model, '3']))
            rates['weir'].append(tokens / float(two_stages.group(1)) * 1e3)
            for schedule in SCHEDULES:
                said = output([sys.executable, f'{here}/pipeline_pytorch.py', model, schedule, str(steps)])
                rates[schedule].append(float(re.search(r'([0-9]+) tokens/s', said).group(1)))
        medians = {name: statistics.median(values) for name, values in rates.items()}
        best = max(SCHEDULES, key=medians.get)
        print(f'{model}: tokens/s, medians of {ROUNDS} rounds: ' + ', '.join(f'{n} {v:.0f}' for n, v in medians.items()))
        print(f'{model}: Weir is {medians["weir"] / medians[best]:.2f} times PyTorch\'s best, {best}', flush=True)
    return 0


sys.exit(main())
