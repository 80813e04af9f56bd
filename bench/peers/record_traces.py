#!/usr/bin/env python3
"""Runs of PyTorch's pipelining on processes of this machine (gloo), and whether Weir reads their traces rightly.

    record_traces.py [FOLDER] [BUILD]        (default: a temporary folder, build/release)

Each of SCHEDULES trains a small network on two processes under torch.profiler, which
exports a trace per rank. What is true is known by other means: the clock around every
call of a stage's forward and backward, which every process of a machine shares, so that
waiting for messages, which PyTorch does inside its named actions, is no part of it.
Printed are the makespan bubble of that, and what `weir simulate --trace` makes of the
traces: a little more work, since an action also computes the loss and posts messages,
which no stage's call does. Exits with 1 when the two are more than LIMIT points apart. With FOLDER the
traces stay there, with the true times beside them. Needs PyTorch where this Python
finds it; says so and exits with 1 when it is not there.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

os.environ['OMP_NUM_THREADS'] = os.environ['MKL_NUM_THREADS'] = '1'
RANKS, MICRO_BATCHES, WIDTH, BATCH, ITERATIONS = 2, 4, 128, 32, 3
SLEEPS_MS = [4, 9, 6, 3]  # of a stage's forward, beside its multiplications; twice that backward
SCHEDULES = [('GPipe', 1), ('Interleaved1F1B', 1), ('InterleavedZeroBubble', 2)]  # stages per rank
LIMIT = 2.0  # points of bubble
CALLS = {'forward_one_chunk': 'F', 'backward_one_chunk': 'B', 'backward_weight_one_chunk': 'W'}


def make_stage(index, stages):
    import torch
    from torch import nn
    from torch.distributed.pipelining import PipelineStage

    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            time.sleep(SLEEPS_MS[index] / 1000)
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            time.sleep(2 * SLEEPS_MS[index] / 1000)
            return gradient.clone()

    class Slow(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return Sleep.apply(torch.relu(self.linear(x)))

    return PipelineStage(Slow(), index, stages, torch.device('cpu'))


def watch(stage, times):
    """Notes when each call of the stage begins and ends."""
    def watched(name, call):
        def run(micro_batch, *arguments, **options):
            kind = CALLS[name] if options.get('full_backward', True) else 'I'
            begin = time.perf_counter_ns()
            result = call(micro_batch, *arguments, **options)
            times.append((f'{stage.stage_index}{kind}{micro_batch}', begin, time.perf_counter_ns()))
            return result
        return run
    for name in CALLS:
        setattr(stage, name, watched(name, getattr(stage, name)))


def train(rank, name, chunks, folder, port):
    import torch
    import torch.distributed
    from torch.distributed.pipelining import schedules
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    torch.distributed.init_process_group('gloo', rank=rank, world_size=RANKS)
    stages = [make_stage(rank + chunk * RANKS, RANKS * chunks) for chunk in range(chunks)]
    kind, times = getattr(schedules, 'Schedule' + name), []
    several = issubclass(kind, schedules.PipelineScheduleMulti)
    schedule = kind(stages if several else stages[0], MICRO_BATCHES, loss_fn=torch.nn.functional.mse_loss)
    rows = torch.randn(MICRO_BATCHES * BATCH, WIDTH)
    inputs = ([rows] if rank == 0 else [], {'target': rows} if rank == RANKS - 1 else {})
    schedule.step(*inputs[0], **inputs[1])
    for stage in stages:
        watch(stage, times)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(ITERATIONS):
            schedule.step(*inputs[0], **inputs[1])
            torch.distributed.barrier()
    profile.export_chrome_trace(f'{folder}/{name}_rank{rank}.json')
    with open(f'{folder}/{name}_true{rank}.json', 'w', encoding='utf-8') as file:
        json.dump(times, file)
    torch.distributed.destroy_process_group()


def true_bubble(name, folder):
    """Of the last iteration: 1 less the work's share of all ranks' time."""
    calls = []
    for rank in range(RANKS):
        with open(f'{folder}/{name}_true{rank}.json', encoding='utf-8') as file:
            of_rank = json.load(file)
        calls += of_rank[len(of_rank) // ITERATIONS * (ITERATIONS - 1):]
    whole = max(end for _, _, end in calls) - min(begin for _, begin, _ in calls)
    return 1 - sum(end - begin for _, begin, end in calls) / (RANKS * whole)


def read_bubble(name, folder, build):
    files = [f'{folder}/{name}_rank{rank}.json' for rank in range(RANKS)]
    ended = subprocess.run([f'{build}/bin/weir', 'simulate', '--json', '--trace', *files], capture_output=True,
                           text=True, check=False)
    if ended.returncode:
        sys.exit(ended.stderr.strip())
    return json.loads(ended.stdout)['bubble']['makespan']


def main():
    try:
        import torch
    except ImportError:
        sys.exit('needs PyTorch: pip install torch')
    build = sys.argv[2] if len(sys.argv) > 2 else 'build/release'
    apart = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = sys.argv[1] if len(sys.argv) > 1 else temporary
        os.makedirs(folder, exist_ok=True)
        print(f'PyTorch {torch.__version__}, {RANKS} processes, {MICRO_BATCHES} micro-batches: makespan bubble')
        for number, (name, chunks) in enumerate(SCHEDULES):
            torch.multiprocessing.spawn(train, (name, chunks, folder, 29611 + number), nprocs=RANKS)
            true, read = true_bubble(name, folder), read_bubble(name, folder, build)
            apart += abs(true - read) * 100 > LIMIT
            print(f'{name:24} true {100 * true:6.2f} %   read {100 * read:6.2f} %')
    return 1 if apart else 0


if __name__ == '__main__':
    sys.exit(main())
