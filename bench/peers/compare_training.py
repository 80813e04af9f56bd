#!/usr/bin/env python3
"""Weir's sequential loop against eager PyTorch, one thread each, in one run.

    compare_training.py [BUILD]        (default: build/release)

Both train in fp32 and in bf16: Weir on cpu and cpu:bf16, PyTorch without and with
torch.autocast. The four take turns, so that whatever else the machine does falls on all
alike. Per model the medians of the rounds' tokens per second are printed, Weir's over
PyTorch's in fp32, Weir's in bf16 over the better of PyTorch's two, and over its own in
fp32. Needs PyTorch where this Python finds it (pip install torch, PYTHONPATH); says so
and exits with 1 when it is not there.
"""

import os
import re
import statistics
import subprocess
import sys

from beside_pytorch import has_pytorch

ROUNDS = 5
STEPS = {'gpt-nano': 5, 'gpt-10m': 2}


def tokens_per_second(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.search(r'([0-9]+) tokens/s', out).group(1)), out.strip()


def main():
    if not has_pytorch():
        return 1
    build = sys.argv[1] if len(sys.argv) > 1 else 'build/release'
    here = os.path.dirname(os.path.abspath(__file__))
    weir, pytorch = [f'{build}/bench/bench_train'], [sys.executable, f'{here}/train_pytorch.py']
    sides = {'weir': (weir, ['cpu']), 'weir bf16': (weir, ['cpu:bf16']),
             'pytorch': (pytorch, []), 'autocast': (pytorch, ['bf16'])}
    print(f'tokens/s of CPU time, medians of {ROUNDS} rounds\n')
    print(f'{"model":10}' + ''.join(f'{name:>11}' for name in sides) + f'{"fp32":>7}{"bf16":>7}{"bf16/fp32":>11}')
    for model, steps in STEPS.items():
        rates, last = {name: [] for name in sides}, ''
        for _ in range(ROUNDS):
            for name, (program, others) in sides.items():
                rate, last = tokens_per_second([*program, model, str(steps), *others])
                rates[name].append(rate)
        median = {name: statistics.median(found) for name, found in rates.items()}
        ratios = (median['weir'] / median['pytorch'],
                  median['weir bf16'] / max(median['pytorch'], median['autocast']))
        print(f'{model:10}' + ''.join(f'{rate:11.0f}' for rate in median.values())
              + ''.join(f'{ratio:7.2f}' for ratio in ratios) + f'{median["weir bf16"] / median["weir"]:11.2f}'
              + f'   {last[last.index("(torch"):]}', flush=True)
    return 0


sys.exit(main())
