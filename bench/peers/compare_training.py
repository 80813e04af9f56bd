#!/usr/bin/env python3
"""Weir's sequential loop against eager PyTorch, one thread each, in one run.

    compare_training.py [BUILD]        (default: build/release)

The two take turns, so that whatever else the machine does falls on both alike; per
model the medians of the rounds' tokens per second and their ratio are printed. Needs
PyTorch where this Python finds it (pip install torch, PYTHONPATH); says so and exits
with 1 when it is not there.
"""

import importlib.util
import os
import re
import statistics
import subprocess
import sys

ROUNDS = 5
STEPS = {'gpt-nano': 5, 'gpt-10m': 2}


def tokens_per_second(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.search(r'([0-9]+) tokens/s', out).group(1)), out.strip()


def main():
    if importlib.util.find_spec('torch') is None:
        print('compare_training.py: no PyTorch here (pip install torch, or set PYTHONPATH to where it is)')
        return 1
    build = sys.argv[1] if len(sys.argv) > 1 else 'build/release'
    here = os.path.dirname(os.path.abspath(__file__))
    print(f'{"model":10} {"weir":>10} {"pytorch":>10} {"ratio":>7}   tokens/s of CPU time, medians of {ROUNDS} rounds')
    for model, steps in STEPS.items():
        ours, theirs, last = [], [], ''
        for _ in range(ROUNDS):
            ours.append(tokens_per_second([f'{build}/bench/bench_train', model, str(steps)])[0])
            rate, last = tokens_per_second([sys.executable, f'{here}/train_pytorch.py', model, str(steps)])
            theirs.append(rate)
        weir, torch = statistics.median(ours), statistics.median(theirs)
        print(f'{model:10} {weir:10.0f} {torch:10.0f} {weir / torch:7.2f}   {last[last.index("(torch"):]}', flush=True)
    return 0


sys.exit(main())
