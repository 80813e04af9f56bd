#!/usr/bin/env python3
"""The GPTs of models/model.c on two ranks by PyTorch's own pipelining: tokens per second.

    pipeline_pytorch.py MODEL SCHEDULE STEPS [bf16]

Two processes of one thread each, joined by gloo; the model, text, micro-batches and
optimizer of train_pytorch.py, whose modules it uses. SCHEDULE is gpipe, 1f1b,
interleaved, zb1p, zb-v or dualpipe-v, the last four with two stages on each rank. With
bf16 each stage's forward is under torch.autocast. A step's time is the clock's on the
last rank, the median of the steps; the first is not counted.
"""

import os
import statistics
import sys
import time

os.environ['OMP_NUM_THREADS'] = os.environ['MKL_NUM_THREADS'] = '1'
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed import pipelining
from torch.nn import functional

from train_pytorch import GPT, MICRO_BATCHES, SIZES, adamw, text

RANKS = 2
PORT = 29511
SCHEDULES = {  # the class, the stages of each rank by their places in the model
    'gpipe': (pipelining.ScheduleGPipe, [[0], [1]]),
    '1f1b': (pipelining.Schedule1F1B, [[0], [1]]),
    'interleaved': (pipelining.ScheduleInterleaved1F1B, [[0, 2], [1, 3]]),
    'zb1p': (pipelining.ScheduleInterleavedZeroBubble, [[0, 2], [1, 3]]),
    'zb-v': (pipelining.ScheduleZBVZeroBubble, [[0, 3], [1, 2]]),
    'dualpipe-v': (pipelining.schedules.ScheduleDualPipeV, [[0, 3], [1, 2]]),
}


class Part(nn.Module):
    """The blocks from first up to last, and what stands at the model's ends where they are in it."""

    def __init__(self, model, first, last, count, is_bf16):
        super().__init__()
        self.is_bf16 = is_bf16
        self.words, self.positions = (model.words, model.positions) if first == 0 else (None, None)
        self.blocks = nn.Sequential(*list(model.blocks)[first:last])
        self.norm, self.head = (model.norm, model.head) if last == count else (None, None)

    def forward(self, x):
        with torch.autocast('cpu', torch.bfloat16, enabled=self.is_bf16):
            if self.words is not None:
                x = self.words(x) + self.positions
            x = self.blocks(x)
            return self.head(self.norm(x)) if self.head is not None else x


def rank_main(rank, name, schedule, steps, is_bf16):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{PORT}', rank=rank, world_size=RANKS)
    batch, sequence, width, blocks, heads = SIZES[name]
    torch.manual_seed(1)
    model = GPT(sequence, width, blocks, heads)
    kind, placed = SCHEDULES[schedule]
    total = sum(len(mine) for mine in placed)
    parts = {s: Part(model, s * blocks // total, (s + 1) * blocks // total, blocks, is_bf16)
             for s in placed[rank]}
    stages = [pipelining.PipelineStage(part, s, total, torch.device('cpu')) for s, part in parts.items()]
    optimizer = adamw(*parts.values())
    count = MICRO_BATCHES * batch * sequence
    tokens, targets = (x.view(MICRO_BATCHES * batch, sequence) for x in text(count))
    run = kind(stages[0] if len(stages) == 1 and total == RANKS else stages, MICRO_BATCHES,
               loss_fn=lambda logits, y: functional.cross_entropy(logits.reshape(-1, 256).float(), y.reshape(-1)))
    last_here = total - 1 in parts
    times, losses = [], []
    for _ in range(steps + 1):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        losses = []
        given = [tokens] if 0 in parts else []
        run.step(*given, **({'target': targets, 'losses': losses} if last_here else {}))
        optimizer.step()
        dist.barrier()
        times.append(time.perf_counter() - start)
    if last_here:
        median, loss = statistics.median(times[1:]), sum(x.item() for x in losses) / MICRO_BATCHES
        print(f'{name:10} {schedule:12} {median * 1e3:9.1f} ms/step {count / median:9.0f} tokens/s   '
              f'loss {loss:.4f} (torch {torch.__version__})', flush=True)
    dist.destroy_process_group()


def main():
    name, schedule, steps, is_bf16 = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ['bf16']
    multiprocessing.spawn(rank_main, (name, schedule, steps, is_bf16), nprocs=RANKS)


if __name__ == '__main__':
    main()
