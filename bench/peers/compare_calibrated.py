#!/usr/bin/env python3
"""What `weir estimate` says of this very machine, against what `weir profile` measures on it.

    compare_calibrated.py [--device cpu] [--models gpt-nano,gpt-10m,gpt2] [--keep FOLDER]
        [--bin build/release/bin/weir]

The device is calibrated (`weir profile --calibrate`), each model measured and estimated; per model the
error of each layer's F + I + W, the median in front; then plans made of the estimate, priced by
the measured profile, against plans made of that: 1f1b with 16 micro-batches on 2 to 4 devices.
To measure gpt2 takes a core of some 80 GFLOP/s half an hour: --keep has profiles that were measured on this machine
before, FOLDER/gpt2.json and so on, and keeps new ones there.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

CLUSTER = '{} devices, 16GiB, 4GB/s 5us'
SCHEDULE = ['--schedule', '1f1b', '--micro-batches', '16', '--tied', 'apart']
TIMES = ('forward_ns', 'backward_input_ns', 'backward_weight_ns')


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def config_of(weir, model, path):
    """The built-in model as a configuration of Hugging Face."""
    shape = json.loads(run(weir, 'model', model, '--json'))
    tied = len({layer['parameters'] for layer in shape['layers'] if layer['kind'] == 'head'} & {2 * shape['width']}) > 0
    config = {'model_type': 'gpt2', 'n_layer': shape['blocks'], 'n_embd': shape['width'], 'n_head': shape['heads'],
              'n_positions': shape['sequence'], 'vocab_size': shape['vocabulary'], 'tie_word_embeddings': tied,
              'resid_pdrop': shape['dropout']}
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(config, file)
    return shape


def iteration_ns(path):
    return load(path)['predicted']['iteration_ns']


def compare_plans(weir, folder):
    for devices in (2, 3, 4):
        cluster = ['--cluster', CLUSTER.format(devices)]
        for name in ('measured', 'estimated'):
            run(weir, 'partition', f'{folder}/{name}.json', *cluster, *SCHEDULE, '-o', f'{folder}/{name}.plan.json')
        cuts = ','.join(str(len(stage['layers'])) for stage in load(f'{folder}/estimated.plan.json')['stages'])
        run(weir, 'price', f'{folder}/measured.json', *cluster, *SCHEDULE, '--cuts', cuts, '-o', f'{folder}/priced.json')
        ratio = iteration_ns(f'{folder}/priced.json') / iteration_ns(f'{folder}/measured.plan.json')
        print(f'    {devices} devices: the plan of the estimate takes {ratio:.4f} of the plan of the measured profile')


def measure(weir, device, model, path, keep):
    kept = keep and f'{keep}/{model}.json'
    if not kept or not os.path.exists(kept):
        run(weir, 'profile', model, '--device', device, '-o', kept or path)
    if kept:
        shutil.copy(kept, path)


def compare_model(weir, device, model, folder, keep):
    shape = config_of(weir, model, f'{folder}/config.json')
    measure(weir, device, model, f'{folder}/measured.json', keep)
    run(weir, 'estimate', f'{folder}/config.json', '--device', f'{folder}/here.json', '--dtype',
        load(f'{folder}/measured.json')['dtype'], '--micro-batch', str(shape['micro_batch']), '--sequence',
        str(shape['sequence']), '-o', f'{folder}/estimated.json')
    errors = {}
    for measured, estimated in zip(load(f'{folder}/measured.json')['layers'], load(f'{folder}/estimated.json')['layers']):
        errors.setdefault(measured['kind'], []).append(
            sum(estimated[time] for time in TIMES) / sum(measured[time] for time in TIMES) - 1)
    every = [abs(error) for kind in errors.values() for error in kind]
    kinds = ', '.join(f'{kind} {100 * statistics.median(of):+.1f} %' for kind, of in errors.items())
    print(f'{model}: median error of a layer {100 * statistics.median(every):.1f} % ({kinds})', flush=True)
    compare_plans(weir, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--models', default='gpt-nano,gpt-10m,gpt2')
    parser.add_argument('--keep', metavar='FOLDER')
    parser.add_argument('--bin', default='build/release/bin/weir')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weir = os.path.abspath(options.bin)
        run(weir, 'profile', '--calibrate', '--device', options.device, '-o', f'{folder}/here.json')
        for model in options.models.split(','):
            compare_model(weir, options.device, model, folder, options.keep)


if __name__ == '__main__':
    main()
