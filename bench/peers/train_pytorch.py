#!/usr/bin/env python3
"""The GPTs of models/model.c in eager PyTorch on one thread: tokens per second.

    train_pytorch.py MODEL STEPS [bf16]

The same shapes, micro-batches, text and optimizer as bench/bench_train.c, written
as one would write them in PyTorch: nn.Linear, nn.LayerNorm, fused attention
(scaled_dot_product_attention), gelu by tanh, cross_entropy, AdamW. With bf16 the
forward and the loss are under torch.autocast. A step's time is the process's CPU
time, the median of the steps; the first is not counted.
"""

import math
import os
import statistics
import sys
import time

os.environ['OMP_NUM_THREADS'] = os.environ['MKL_NUM_THREADS'] = '1'
import torch
from torch import nn
from torch.nn import functional

SIZES = {  # micro-batch, sequence, width, blocks, heads
    'gpt-nano': (4, 128, 128, 4, 4),
    'gpt-10m': (2, 128, 384, 6, 6),
}
MICRO_BATCHES = 16


class Block(nn.Module):
    def __init__(self, width, heads, blocks):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for linear in (self.qkv, self.up, self.out, self.down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        for linear in (self.out, self.down):
            linear.weight.data /= math.sqrt(2 * blocks)

    def forward(self, x):
        batch, sequence, width = x.shape
        q, k, v = (part.view(batch, sequence, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate='tanh'))


class GPT(nn.Module):
    def __init__(self, sequence, width, blocks, heads):
        super().__init__()
        self.words, self.positions = nn.Embedding(256, width), nn.Parameter(torch.randn(sequence, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, blocks) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.words(tokens) + self.positions)))


def splitmix(seed):
    """The numbers of common/random.h."""
    mask = 2 ** 64 - 1
    while True:
        seed = (seed + 0x9e3779b97f4a7c15) & mask
        z = ((seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9) & mask
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & mask
        yield z ^ (z >> 31)


def text(count):
    """The text of bench_train.c."""
    numbers, last, tokens, targets = splitmix(1), 0, [], []
    for _ in range(count):
        tokens.append(last)
        last = next(numbers) % 256 if next(numbers) % 8 == 0 else (last * 5 + 1) % 256
        targets.append(last)
    return torch.tensor(tokens), torch.tensor(targets)


def adamw(*modules):
    parameters = [p for module in modules for p in module.parameters()]
    return torch.optim.AdamW([{'params': [p for p in parameters if p.dim() > 1], 'weight_decay': 0.1},
                              {'params': [p for p in parameters if p.dim() == 1], 'weight_decay': 0}],
                             lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def main():
    name, steps, is_bf16 = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ['bf16']
    batch, sequence, width, blocks, heads = SIZES[name]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = GPT(sequence, width, blocks, heads)
    optimizer = adamw(model)
    count = MICRO_BATCHES * batch * sequence
    tokens, targets = (x.view(MICRO_BATCHES, batch, sequence) for x in text(count))
    times = []
    for _ in range(steps + 1):
        start = time.process_time()
        optimizer.zero_grad()
        loss = 0
        for x, y in zip(tokens, targets):
            with torch.autocast('cpu', torch.bfloat16, enabled=is_bf16):
                part = functional.cross_entropy(model(x).view(-1, 256), y.view(-1)) / MICRO_BATCHES
            part.backward()
            loss += part.item()
        optimizer.step()
        times.append(time.process_time() - start)
    median = statistics.median(times[1:])
    print(f'{name:10} {median * 1e3:9.1f} ms/step {count / median:9.0f} tokens/s   loss {loss:.4f} '
          f'(torch {torch.__version__}, {sum(p.numel() for p in model.parameters())} parameters)')


if __name__ == '__main__':
    main()
