"""What random modules have shown (fuzz_modules.py): each was silently wrong once, and is right or refused now."""

import copy
import os
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
from torch import nn
from torch.nn.functional import mse_loss

import weir
from plans import plan_of, recomputed
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.torch import pipeline

LAYERS = [f"mid.{layer}" for layer in range(4)]


class Layer(nn.Module):
    """Counts in an attribute and in a buffer that is another tensor each time; tells a number of the data."""

    def __init__(self):
        super().__init__()
        self.lin, self.calls, self.peak, self.log = nn.Linear(16, 16), 0, torch.ones(()), []
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x):
        y, self.calls = self.lin(x), self.calls + 1
        self.log.append(self.calls)
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        self.peak = y.detach().abs().max()
        return torch.tanh(y - self.mean) * (1 + 0.1 * len(self.log)) / self.calls


class Net(nn.Module):
    def __init__(self, does):
        super().__init__()
        torch.manual_seed(8)
        kind = Layer if does in ("counts", "told", "told of words") else Half if does == "shared" else Plain
        self.does, self.mid = does, nn.ModuleList(kind() for _ in range(4))
        self.words = nn.Embedding(50, 16)
        self.register_buffer("steps", torch.ones(16))
        self.register_buffer("gain", torch.ones(()))
        if does == "shared":
            self.mid[3].counter = self.mid[0].counter

    def forward(self, x):
        x = x if x.is_floating_point() else self.words(x)
        x = x * (self.gain + 1)  # which is a constant
        fresh = x * self.steps
        for number, layer in enumerate(self.mid):
            view, y = fresh[..., :8], layer(x)
            if self.does == f"changes a view at {number}":
                fresh.add_(1.0)
                y = y + torch.cat([view, view], -1)
            if self.does.startswith("told"):
                y = y / (1 + layer.peak)
            if self.does == "hooked" and y.requires_grad:
                y.register_hook(lambda slope: slope * 2)
            x, fresh = y, y * 1.0
        return x


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)

    def forward(self, x):
        return self.lin(x)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x / self.calls


class Half(Plain):
    def __init__(self):
        super().__init__()
        self.counter = Counter()

    def forward(self, x):
        return self.counter(self.lin(x))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, output, target):
        return mse_loss(output * self.scale, target)


def batch(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


CHANGES = {
    "a parameter": lambda net: setattr(net.mid[0].lin, "weight", nn.Parameter(net.mid[0].lin.weight.detach() * 2)),
    "the data of a buffer": lambda net: setattr(net.gain, "data", torch.full((), 3.0)),
    "a module": lambda net: net.mid.__setitem__(3, nn.Tanh())}


def stepped(plan, does, rows=2, loss=mse_loss, change=None):
    """What pipeline and step say, or the largest relative difference of a gradient or buffer from the whole model's."""
    x, model = batch(4 * rows, 16), Net(does)
    y, x = x + 1, (torch.arange(4 * rows) * 7 % 50 if does == "told of words" else x)
    whole = copy.deepcopy(model)
    try:
        pipe = pipeline(model, plan, x[:rows], loss_fn=loss)
        if change is not None:
            CHANGES[change](model)
        pipe.step(x, target=y)
    except weir.WeirError as error:
        return str(error)
    for part, wanted in zip(x.chunk(4), y.chunk(4)):
        (mse_loss(whole(part), wanted) / 4).backward()
    theirs, mine = dict(whole.named_parameters()), dict(pipe.named_parameters())
    pairs = [(parameter.grad, theirs[name].grad) for name, parameter in mine.items()]
    pairs += [(dict(model.named_buffers())[name], buffer) for name, buffer in whole.named_buffers()
              if f"{name.rpartition('.')[0]}.lin.weight" in mine]
    return max(((mine - wanted).abs().max() / wanted.abs().max()).item() for mine, wanted in pairs if wanted is not None)


def cases():
    """By name what stepped is called with; those of which a sentence is the end are refused."""
    plain, split = plan_of(LAYERS, "1f1b", 2, 4), plan_of(LAYERS, "zb-h1", 2, 4)
    twice = "the model does other steps each time that it runs"
    return {
        "counts": (plain, "counts"),
        "counts, recomputed": (recomputed(plan_of(LAYERS, "1f1b", 2, 4)), "counts"),
        "told": (plain, "told", twice),
        "told in one row": (plain, "told", 1, twice),
        "told of words": (plan_of(["words", *LAYERS], "1f1b", 2, 4), "told of words", twice),
        "hooked": (plain, "hooked"),
        "loss": (split, "", 2, Scaled(), "the loss has parameters (scale), and PyTorch's split backward (I, W) loses"),
        "view and cut": (plain, "changes a view at 2", "stage 0 of the plan ends with layer mid.1, and a later layer"),
        "view": (plain, "changes a view at 1"),
        "view, recomputed": (recomputed(plan_of(LAYERS, "1f1b", 2, 4), [["mid.1"]]), "changes a view at 1",
                             "layer mid.1 changes in place a tensor that it reads, of which there is a view"),
        "shared": (plain, "shared", "mid.0.counter is an object that modules of several stages have"),
        "a parameter": (plain, "", 2, mse_loss, "a parameter", "mid.0.lin.weight is another parameter than the one"),
        "the data of a buffer": (plain, "", 2, mse_loss, "the data of a buffer", "gain has changed since the stages were"),
        "a module": (plain, "", 2, mse_loss, "a module", "mid.3 has changed since the stages were made")}


def all_cases(rank):
    return {name: stepped(*(args[:-1] if is_refused(args) else args)) for name, args in cases().items()}


def is_refused(args):
    return len(args) > 2 and isinstance(args[-1], str)


class Silent(unittest.TestCase):
    def test_each_is_right_or_refused_on_every_rank(self):
        for rank, found in enumerate(on_ranks(2, all_cases)):
            for name, args in cases().items():
                with self.subTest(name, rank=rank):
                    if is_refused(args):
                        self.assertIn(args[-1], str(found[name]))
                    else:
                        self.assertIsInstance(found[name], float, found[name])
                        self.assertLess(found[name], 1e-5)

    def test_a_profile_counts_nothing(self):
        model = Net("counts")
        weir.profile(model, batch(2, 16), loss_fn=lambda y: y.mean(), repeats=1)
        self.assertEqual((0, []), (model.mid[0].calls, model.mid[0].log))
        self.assertEqual(0, model.mid[0].mean.count_nonzero())


if __name__ == "__main__":
    unittest.main()
