#!/usr/bin/env python3
"""Weir's kernels of layers against those of eager PyTorch, one thread each, in one run.

    compare_layers.py [BUILD [ROUNDS [KIND]]]        (default: build/release, 15, and all kinds)

KIND is `convolution`, `attention` or `experts`.

The two take turns, case by case, so that whatever else the machine does falls on both alike. A turn is the best of
five runs, in CPU time of the thread. Each round gives a ratio of two turns, and the median of these ratios is printed. PyTorch's tensors are
channels_last, which is as Weir's lie, and so are its weights. Weir adds gradients of weights to those that are there,
and PyTorch overwrites.

Attention with a pattern is also held against Weir's own without one: the least of time that it can take is the part
of the pairs of tokens that it sees. PyTorch gets the pattern as a mask, and computes all pairs.

Experts, dropless, are held against an MLP of the same products, on either side. PyTorch's are a loop over them.

A number over 1 means that Weir is faster. The gradients of the input of a first layer are computed by nobody, and are
left out. Needs PyTorch where this Python finds it (pip install torch, PYTHONPATH); exits with 1 when it is not there.
"""

import math
import statistics
import sys

from beside_pytorch import PyTorch, best_ns, has_pytorch, sides_of, take_turns

# Name, then batch, height, width, channels in and out, groups, window's height and width, stride, padding.
CONVOLUTIONS = [
    ('64>64 3x3 @112 N2', (2, 112, 112, 64, 64, 1, 3, 3, 1, 1)),
    ('64>64 3x3 @56 N4', (4, 56, 56, 64, 64, 1, 3, 3, 1, 1)),
    ('256>256 3x3 @14 N8', (8, 14, 14, 256, 256, 1, 3, 3, 1, 1)),
    ('256>64 1x1 @56 N4', (4, 56, 56, 256, 64, 1, 1, 1, 1, 0)),
    ('3>64 7x7s2 @224 N2', (2, 224, 224, 3, 64, 1, 7, 7, 2, 3)),
    ('32>64 3x3 @14 N32', (32, 14, 14, 32, 64, 1, 3, 3, 1, 1)),
]
# Name, then batch, sequence, heads, their size; window, global, stride, block (device/attention_pattern.h).
ATTENTIONS = [
    ('causal 2048', (1, 2048, 4, 64, 0, 0, 0, 0)),
    ('window 256', (1, 2048, 4, 64, 256, 0, 0, 0)),
    ('window 128 global 16', (1, 2048, 4, 64, 128, 16, 0, 0)),
    ('.. stride 128/16', (1, 2048, 4, 64, 128, 16, 128, 16)),
    ('causal 4096', (1, 4096, 4, 32, 0, 0, 0, 0)),
    ('window 512', (1, 4096, 4, 32, 512, 0, 0, 0)),
]
# Name, then rows, width, width inside of an expert, experts, and how many a row takes.
EXPERTS = [
    ('8 experts, top 2', (512, 256, 512, 8, 2)),
    ('16 experts, top 2', (2048, 256, 512, 16, 2)),
]
PASSES = 'FIW'  # forward, gradients of the input, gradients of the weights


class Layers(PyTorch):
    def tensor(self, *sizes):
        return self.torch.randn(*sizes).contiguous(memory_format=self.torch.channels_last)

    def attention(self, numbers):
        torch = self.torch
        batch, sequence, heads, size, window = numbers[:5]
        q, k, v = (torch.randn(batch, heads, sequence, size, requires_grad=True) for _ in range(3))
        mask = torch.tensor(sees(numbers), dtype=torch.bool) if window else None

        def forward():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)

        out = forward()
        gradient = torch.randn_like(out)
        return [best_ns(forward),
                best_ns(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))]

    def experts(self, numbers):
        torch = self.torch
        rows, width, inner, count, top = numbers
        x = torch.randn(rows, width, requires_grad=True)
        gradient = torch.randn(rows, width)
        router = torch.randn(width, count, requires_grad=True)
        linear = torch.nn.functional.linear

        def mlps(count, inner):
            sizes = ((count, inner, width), (count, inner), (count, width, inner), (count, width))
            return [torch.randn(*size, requires_grad=True) for size in sizes]

        def mlp(x, weights, e):
            up, up_bias, down, down_bias = (tensor[e] for tensor in weights)
            return linear(torch.nn.functional.gelu(linear(x, up, up_bias), approximate='tanh'), down, down_bias)

        def sparse():
            gates, chosen = torch.topk(torch.softmax(x @ router, -1), top, -1)
            gates = gates / gates.sum(-1, keepdim=True)
            out = torch.zeros_like(x)
            for e in range(count):
                row, k = torch.where(chosen == e)
                out = out.index_add(0, row, mlp(x[row], own, e) * gates[row, k, None])
            return out

        own, whole = mlps(count, inner), mlps(1, inner * top)
        times = []
        for run, weights in ((sparse, [x, router, *own]), (lambda: mlp(x, whole, 0), [x, *whole])):
            out = run()
            times += [best_ns(run), best_ns(lambda: torch.autograd.grad(out, weights, gradient, retain_graph=True))]
        return times

    def convolution(self, numbers):
        torch = self.torch
        batch, height, width, into, out, groups, rows, columns, stride, padding = numbers
        x, weights = self.tensor(batch, into, height, width), self.tensor(out, into // groups, rows, columns)

        def forward():
            return torch.nn.functional.conv2d(x, weights, None, stride, padding, 1, groups)

        gradient = self.tensor(*forward().shape)

        def backward(wants_input, wants_weights):
            return lambda: torch.ops.aten.convolution_backward(
                gradient, x, weights, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups,
                [wants_input, wants_weights, False])

        with torch.no_grad():
            return [best_ns(run) for run in (forward, backward(True, False), backward(False, True))]


def sees(numbers):  # which key each query sees
    _, sequence, _, _, window, whole, stride, block = numbers
    return [[j <= i and (window == 0 or i - j < window or j < whole or (stride > 0 and j % stride >= stride - block))
             for j in range(sequence)] for i in range(sequence)]


def work(numbers):  # floating-point operations of a pass
    batch, height, width, into, out, groups, rows, columns, stride, padding = numbers
    places = ((height + 2 * padding - rows) // stride + 1) * ((width + 2 * padding - columns) // stride + 1)
    return 2 * batch * places * out * into // groups * rows * columns


def wanted(numbers):  # passes that a model has: a first layer's I is not computed
    return [0, 2] if numbers[3] <= 3 else [0, 1, 2]


def ratio(theirs, ours, passes):  # median over the rounds, of these passes together
    return statistics.median(sum(their[i] for i in passes) / sum(our[i] for i in passes)
                             for their, our in zip(theirs, ours))


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def compare_attention(sides, rounds):
    turns = take_turns(sides, rounds, 'attention', dict(ATTENTIONS).values())
    print(f'{"attention":22} {"weir ms":>13} {"pytorch ms":>13}   over pytorch   of causal\'s time, and pairs')
    print(f'{"":22} ' + f'{"F":>6} {"B":>6} ' * 2 + f'  {"F":>5} {"B":>5}   {"F":>5} {"B":>5} {"both":>5} {"pairs":>6}')
    for name, numbers in ATTENTIONS:
        ours, theirs = turns[numbers]
        if numbers[4] == 0:
            causal, all_pairs = ours, numbers[1] * (numbers[1] + 1) // 2
        times = ' '.join(f'{statistics.median(of) / 1e6:6.1f}' for side in turns[numbers] for of in zip(*side))
        shown = ' '.join(f'{ratio(theirs, ours, [i]):5.2f}' for i in range(2))
        parts = ' '.join(f'{ratio(ours, causal, passes):5.2f}' for passes in ([0], [1], [0, 1]))
        print(f'{name:22} {times}   {shown}   {parts} {sum(map(sum, sees(numbers))) / all_pairs:6.3f}')


def compare_experts(sides, rounds):
    turns = take_turns(sides, rounds, 'experts', dict(EXPERTS).values())
    print(f'{"experts":22} {"weir ms":>13} {"pytorch ms":>13}   over pytorch   rate over dense: weir, pytorch')
    for name, numbers in EXPERTS:
        ours, theirs = taken = turns[numbers]
        times = ' '.join(f'{statistics.median(of) / 1e6:6.1f}' for side in taken for of in list(zip(*side))[:2])
        shown = ' '.join(f'{ratio(theirs, ours, [i]):5.2f}' for i in range(2))
        dense = ' '.join(f'{statistics.median((dense_f + dense_b) / (f + b) for f, b, dense_f, dense_b in side):5.2f}'
                         for side in taken)
        print(f'{name:22} {times}   {shown}   {dense}')


def main():
    if not has_pytorch():
        return 1
    kind = sys.argv[3] if len(sys.argv) > 3 else None
    sides, rounds = sides_of(Layers)
    for name, compare in (('attention', compare_attention), ('experts', compare_experts),
                          ('convolution', compare_convolutions)):
        if kind in (None, name):
            compare(sides, rounds)
    return 0


def compare_convolutions(sides, rounds):
    turns = take_turns(sides, rounds, 'convolution', dict(CONVOLUTIONS).values())
    print(f'{"convolution":20} {"weir GF/s":>17} {"pytorch GF/s":>17}   weir over pytorch, medians of {rounds} rounds')
    print(f'{"":20} ' + f'{"F":>5} {"I":>5} {"W":>5} ' * 2 + f'  {"F":>5} {"I":>5} {"W":>5} {"all":>6}')
    every = []
    for name, numbers in CONVOLUTIONS:
        ours, theirs = turns[numbers]
        ratios = {i: ratio(theirs, ours, [i]) for i in wanted(numbers)}
        every += ratios.values()
        medians = [statistics.median(of) for side in turns[numbers] for of in zip(*side)]
        rates = ' '.join(f'{work(numbers) / ns:5.0f}' for ns in medians)
        shown = ' '.join(f'{ratios[i]:5.2f}' if i in ratios else '    -' for i in range(3))
        print(f'{name:20} {rates}   {shown} {ratio(theirs, ours, wanted(numbers)):6.2f}')
    print(f'geometric mean {geometric_mean(every):.2f}, least {min(every):.2f}')


sys.exit(main())
