"""Modules that a seed draws, for fuzz_modules.py: blocks, and moves of the forward that calls them.

A move is one thing that forwards do: a skip over several blocks, a view that is changed in place, a mask made of ids,
an attribute that is read. Each draws from numbers of its own, so that leaving one out leaves the others as they are.
What is always refused is drawn seldom, so that most modules are run; all others should be right, and may be refused.
"""

import math
import random
import types
from typing import Any, Callable, Dict, FrozenSet, List, Tuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, WORDS = 8, 11


# --- blocks: x in, something of its shape out ----------------------------------------------------

class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.factor = 1.0  # which a change may set

    def forward(self, x):
        return torch.tanh(self.lin(x)) * self.factor


class Residual(Block):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.wide = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        return x + self.factor * self.out(F.gelu(self.wide(self.norm(x))))


class Normed(Block):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return self.norm(self.lin(x).flatten(0, -2)).relu().view_as(x) + 0.5 * x


class InPlace(Block):
    def forward(self, x):
        return F.relu(self.lin(x).add_(0.1), inplace=True) + x


class ChangesInput(Block):
    """What it is handed is another one behind it."""

    def forward(self, x):
        x.mul_(0.5)
        return self.lin(x)


class TakesInputCopy(Block):
    def forward(self, x):
        x = x * 1.0
        x += 0.25
        x[..., 0] = 0.5
        return torch.tanh(self.lin(x))


class ToldMode(Block):
    """Dropout of everything: no random number decides."""

    def forward(self, x):
        return x + F.dropout(self.lin(x), 1.0, self.training)


class Dropped(Block):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(1.0)

    def forward(self, x):
        return x + self.drop(self.lin(x))


class Averaging(Block):
    """A running mean that its forward reads, changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        y = self.lin(x)
        if self.training:
            self.mean.mul_(0.9).add_(y.detach().flatten(0, -2).mean(0), alpha=0.1)
        return torch.tanh(y - self.mean)


class AveragingAnew(Averaging):
    """The same; the buffer is another tensor each time."""

    def forward(self, x):
        y = self.lin(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * y.detach().flatten(0, -2).mean(0)
        return torch.tanh(y - self.mean)


class CountsInBuffer(Block):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.seen += 1
        return torch.tanh(self.lin(x)) * (1 + 0.1 * self.seen.item())


class Counts(Block):
    """Its calls, in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.tanh(self.lin(x)) * (1 + 0.1 * self.calls)


class Attends(Block):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x if x.dim() == 3 else x.unsqueeze(1)).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.lin(y).view_as(x)


class Nested(Block):
    """A list inside, so that it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, x):
        y = self.lin(x)
        for layer in self.inner:
            y = y + torch.tanh(layer(y)) * self.factor
        return y


class Normalised(Block):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.utils.parametrizations.weight_norm(self.lin)


class Spectral(Block):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.utils.parametrizations.spectral_norm(self.lin)


class Checkpointed(Block):
    def forward(self, x):
        return checkpoint(lambda y: torch.tanh(self.lin(y)) * self.factor, x, use_reentrant=False)


class Wide(Block):
    """In double precision inside."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = self.lin.double()

    def forward(self, x):
        return torch.tanh(self.lin(x.double())).to(x.dtype)


class Frozen(Block):
    def __init__(self) -> None:
        super().__init__()
        self.lin.requires_grad_(False)


class Waves(Block):
    """A complex parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.waves = nn.Parameter(torch.randn(WIDTH // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        return x + torch.fft.irfft(torch.fft.rfft(self.lin(x).to(torch.float32)) * self.waves, n=WIDTH).to(x.dtype)


class WithoutAutocast(Block):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return torch.tanh(self.lin(x.to(self.lin.weight.dtype)))


class Drawing(Block):
    def forward(self, x):
        return torch.tanh(self.lin(x)) + 0 * torch.randn_like(x)


class Bare(nn.Module):
    """No parameters: it belongs to the layer before."""

    def forward(self, x):
        return torch.sin(x) + x


BLOCKS = [Block, Block, Residual, Residual, Normed, InPlace, TakesInputCopy, ToldMode, Dropped, Averaging,
          AveragingAnew, CountsInBuffer, Counts, Attends, Nested, Normalised, Spectral, Checkpointed, Wide, Frozen,
          Waves, WithoutAutocast, Drawing, Bare]


class Two(nn.Module):
    """Reads several things: x and another, or x and ids, and a number by name."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, other, scale=1.0, mask=None):
        y = self.a(x) * scale + self.b(other)
        return torch.tanh(y if mask is None else y.masked_fill(mask, 0.0))


class OfDict(Two):
    def forward(self, state):
        x = torch.tanh(self.a(state["x"]))
        return {"x": x, "early": state["early"], "new": self.b(x), "note": "kept"}


class OfTuple(Two):
    def forward(self, pair):
        x, early = pair
        return torch.tanh(self.a(x)), (early + self.b(x), x.detach())


class OfList(Two):
    def forward(self, things):
        return sum(self.a(thing) for thing in things) + self.b(things[0])


class Expert(Two):
    """An auxiliary loss beside its output, and one in an attribute."""

    def forward(self, x):
        gate = torch.softmax(self.a(x), -1)
        self.loss = gate.mean() * gate.pow(2).sum(-1).mean()
        return x + gate * self.b(x), gate.pow(2).mean()


class Telling(Block):
    """Leaves a number of the data in an attribute, without its gradient."""

    def forward(self, x):
        self.peak = x.detach().abs().max()
        return torch.tanh(self.lin(x))


class Whispers(Block):
    """Blocks that share a dictionary: the first leaves something there."""

    def __init__(self, shared: Dict[str, Any], writes: bool) -> None:
        super().__init__()
        self.shared, self.writes = shared, writes

    def forward(self, x):
        if self.writes:
            self.shared["early"] = x.detach().mean(-1, keepdim=True)
        return torch.tanh(self.lin(x)) + self.shared.get("early", 0.0)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, slope):
        return slope * 3  # which no other graph has


# --- moves of the forward ------------------------------------------------------------------------

class Flow:
    """What a forward has at hand while it runs."""

    def __init__(self, x, ids, mask, scale):
        self.x, self.ids, self.mask, self.scale = x, ids, mask, scale
        self.kept: List[torch.Tensor] = [x]
        self.losses: List[torch.Tensor] = []
        self.more: Dict[str, Any] = {}

    def old(self, number: int) -> torch.Tensor:
        return self.kept[number % len(self.kept)]


MOVES: List[Tuple[Callable, float]] = []


def move(weight: float = 1.0) -> Callable:
    def note(function: Callable) -> Callable:
        MOVES.append((function, weight))
        return function
    return note


def add(net: "Drawn", block: nn.Module) -> int:
    net.blocks.append(block)
    return len(net.blocks) - 1


def plain(net: "Drawn") -> int:
    return add(net, Block())


@move(6.0)
def block(net, draw):
    kind = draw.choice([one for one in BLOCKS if net.rows > 1 or one is not Normed])
    at = add(net, kind())
    net.changes.append(("factor of a block", lambda net, draw: setattr(net.blocks[at], "factor", 0.5)))

    def run(net, s):
        s.x = net.blocks[at](s.x)
    return run, kind.__name__


@move(2.0)
def skip(net, draw):
    at, number = plain(net), draw.randrange(8)

    def run(net, s):
        s.kept.append(s.x)
        s.x = net.blocks[at](s.x) + 0.5 * s.old(number)
    return run


@move(2.0)
def two_inputs(net, draw):
    at, number, how = add(net, Two()), draw.randrange(8), draw.choice(["old", "scale", "mask", "number"])
    net.half = 0.5
    net.changes.append(("attribute half", lambda net, draw: setattr(net, "half", 0.75)))

    def run(net, s):
        if how == "old":
            s.x = net.blocks[at](s.x, s.old(number))
        elif how == "scale":
            s.x = net.blocks[at](s.x, other=s.old(number), scale=net.half)
        elif how == "mask":
            mask = s.old(number) > 0.5 if s.mask is None else s.mask.unsqueeze(-1).expand_as(s.x)
            s.x = net.blocks[at](s.x, s.old(number), mask=mask)
        else:
            s.x = net.blocks[at](s.x, s.old(number), s.scale)
    return run, how


@move()
def dictionary(net, draw):
    places, number = [add(net, OfDict()) for _ in range(2)], draw.randrange(8)

    def run(net, s):
        state = {"x": s.x, "early": s.old(number)}
        for at in places:
            state = net.blocks[at](state)
        s.x = state["x"] + state["early"] * 0.5 + state["new"]
    return run


@move()
def tuples(net, draw):
    places, number = [add(net, OfTuple()) for _ in range(2)], draw.randrange(8)

    def run(net, s):
        x, (early, before) = net.blocks[places[0]]((s.x, s.old(number)))
        x, (early, _) = net.blocks[places[1]]((x, early))
        s.x = x + early + before
    return run


@move(0.5)
def lists(net, draw):
    at, number = add(net, OfList()), draw.randrange(8)

    def run(net, s):
        s.x = torch.tanh(net.blocks[at]([s.x, s.old(number)]))
    return run


@move(2.0)
def in_place(net, draw):
    at, other, how = plain(net), plain(net), draw.choice(["add", "set", "view", "late view", "late", "relu", "leaf"])
    if how == "leaf":
        changer = add(net, ChangesInput())

    def run(net, s):
        y = net.blocks[at].lin(s.x) if how in ("add", "relu") else s.x * 1.0
        if how == "add":
            y += 0.3
            s.x = torch.tanh(net.blocks[other](y))
        elif how == "set":
            y[..., 0] = 0.5
            s.x = net.blocks[other](net.blocks[at](y))
        elif how == "view":
            view = y[..., :WIDTH // 2]
            view.mul_(0.5)
            s.x = net.blocks[other](net.blocks[at](y))
        elif how == "late view":  # a layer's result and a view of it, changed behind another layer
            y = net.blocks[at].lin(s.x)
            view = y[..., :WIDTH // 2]
            late = net.blocks[other](s.x)
            y.add_(1.0)
            s.x = torch.tanh(late + torch.cat([view, view], -1))
        elif how == "late":
            y = net.blocks[at].lin(s.x)
            late = net.blocks[other](s.x)
            y.mul_(late.detach())
            s.x = torch.tanh(late + y)
        elif how == "relu":
            s.x = net.blocks[other](F.relu(y, inplace=True)) + s.x
        else:
            y = y + 0.1
            late = net.blocks[changer](y)
            s.x = torch.tanh(net.blocks[at](y) + late)
    return run, how


@move(1.5)
def constants(net, draw):
    at, how = plain(net), draw.choice(["arange", "tril", "ones_like", "full", "zeros", "index_add", "shape"])

    def run(net, s):
        x = net.blocks[at](s.x)
        if how == "arange":
            x = x + 0.01 * torch.arange(x.shape[-1])
        elif how == "tril":
            x = x @ torch.tril(torch.ones(WIDTH, WIDTH)).to(x.dtype) * 0.2
        elif how == "ones_like":
            x = x + torch.ones_like(x) * x.new_full((WIDTH,), 0.1)
        elif how == "full":
            x = torch.where(torch.full(x.shape, True), x, torch.zeros(()).to(x.dtype))
        elif how == "zeros":  # a result that is filled piece by piece
            made = torch.zeros(x.shape, dtype=x.dtype)
            made[..., : WIDTH // 2] = x[..., WIDTH // 2:]
            x = x + made
        elif how == "index_add":
            made = torch.zeros(x.shape, dtype=x.dtype)
            made.index_add_(0, torch.arange(x.shape[0]), x)
            x = x + made
        else:
            x = x / math.sqrt(x.shape[-1]) + x.view(x.shape[0], -1).mean() * (1 / x.shape[0])
        s.x = x
    return run, how


@move(2.5)
def reads(net, draw):
    """Attributes, buffers, configurations, which a change may set to something else."""
    at = plain(net)
    how = draw.choice(["attribute", "list", "object", "buffer", "derived buffer", "float of buffer", "plain tensor",
                       "function", "tuple of tensors"])
    if how == "attribute":
        net.temperature = 1.0
        net.changes.append(("temperature", lambda net, draw: setattr(net, "temperature", 3.0)))
    elif how == "list":
        net.powers = [1.0, 2.0]
        net.changes.append(("powers", lambda net, draw: net.powers.__setitem__(1, 0.5)))
    elif how == "object":
        net.config = types.SimpleNamespace(inner=types.SimpleNamespace(gain=1.0))
        net.changes.append(("config", lambda net, draw: setattr(net.config.inner, "gain", 0.5)))
    elif how in ("buffer", "derived buffer", "float of buffer"):
        net.register_buffer("gain", torch.ones(()))
        net.changes.append(("gain filled", lambda net, draw: net.gain.fill_(0.5)))
        net.changes.append(("gain another", lambda net, draw: setattr(net, "gain", torch.full((), 0.25))))
        net.changes.append(("gain by data", lambda net, draw: setattr(net.gain, "data", torch.full((), 0.25))))
    elif how == "plain tensor":
        net.plain = torch.ones(WIDTH)
        net.changes.append(("plain tensor filled", lambda net, draw: net.plain.fill_(0.5)))
        net.changes.append(("plain tensor another", lambda net, draw: setattr(net, "plain", torch.full((WIDTH,), 0.5))))
    elif how == "function":
        net.act = torch.tanh
        net.changes.append(("act", lambda net, draw: setattr(net, "act", torch.sin)))
    else:
        net.pair = (torch.ones(WIDTH), torch.ones(WIDTH))
        net.changes.append(("pair filled", lambda net, draw: net.pair[1].fill_(0.5)))

    def run(net, s):
        x = net.blocks[at](s.x)
        if how == "attribute":
            x = x / net.temperature
        elif how == "list":
            x = x * net.powers[1]
        elif how == "object":
            x = x * net.config.inner.gain
        elif how == "buffer":
            x = x * net.gain
        elif how == "derived buffer":
            x = x * (net.gain + 1)
        elif how == "float of buffer":
            x = x * float(net.gain)
        elif how == "plain tensor":
            x = x * net.plain
        elif how == "function":
            x = net.act(x)
        else:
            x = x * net.pair[0] * net.pair[1]
        s.x = x
    return run, how


@move(1.5)
def mask_drawn(net, draw):
    at, how = plain(net), draw.choice(["buffer", "buffer", "attribute", "block's"])
    key = f"drawn{at}"

    def anew(draw):
        return torch.rand(WIDTH, generator=torch.Generator().manual_seed(draw.randrange(99))) < 0.5

    def owner(net):
        return net.blocks[at] if how == "block's" else net

    if how == "attribute":
        setattr(net, key, anew(draw))
    else:
        owner(net).register_buffer(key, anew(draw))
    net.changes += [("mask drawn in place", lambda net, draw: getattr(owner(net), key).copy_(anew(draw))),
                    ("mask drawn anew", lambda net, draw: setattr(owner(net), key, anew(draw)))] * 2

    def run(net, s):
        s.x = net.blocks[at](s.x).masked_fill(getattr(owner(net), key), 0.1) + 0.5 * s.x
    return run, how


@move()
def told_mode(net, draw):
    at, how = plain(net), draw.choice(["dropout", "if", "number"])

    def run(net, s):
        if how == "dropout":
            s.x = s.x + F.dropout(net.blocks[at](s.x), 1.0, net.training)
        elif how == "if":
            x = net.blocks[at](s.x)
            s.x = x * 2 if net.training else x
        else:
            s.x = net.blocks[at](s.x) * (1.0 + net.training)
    return run, how


@move()
def ids_again(net, draw):
    net.late = nn.Embedding(WORDS, WIDTH)
    at, how = plain(net), draw.choice(["embedding", "mask", "shift", "index", "one_hot"])

    def run(net, s):
        ids, x = s.ids, net.blocks[at](s.x)
        if ids is None:
            ids = (x.detach().mean(-1) > 0).long()
        if how == "embedding":
            x = x + net.late(ids)
        elif how == "mask":
            x = torch.where((ids > 3).unsqueeze(-1), x, 0.5 * x)
        elif how == "shift":
            shifted = torch.zeros(ids.shape, dtype=torch.long)
            shifted[..., 1:] = ids[..., :-1]
            x = x + net.late(shifted)
        elif how == "index":
            x = x + net.late.weight[ids]
        else:
            x = x + F.one_hot(ids % WIDTH, WIDTH).to(x.dtype)
        s.x = x
    return run, how


@move()
def auxiliary(net, draw):
    at, how = add(net, Expert()), draw.choice([*["returned", "computed"] * 4, "attribute"])

    def run(net, s):
        s.x, loss = net.blocks[at](s.x)
        s.losses.append(loss if how == "returned" else net.blocks[at].loss if how == "attribute"
                        else s.x.pow(2).mean())
    return run, how


@move()
def wide_or_complex(net, draw):
    at, how = plain(net), draw.choice(["double", "complex", "half", "int"])

    def run(net, s):
        if how == "double":
            s.kept.append(s.x.double())
            s.x = (net.blocks[at](s.x) + s.kept.pop() * 0.5).to(s.x.dtype)
        elif how == "complex":
            z = torch.complex(s.x.float(), s.x.float() * 0.5)
            y = net.blocks[at](s.x)
            s.x = (y + (z * z.conj()).real * 0.1 + torch.view_as_real(z)[..., 1]).to(s.x.dtype)
        elif how == "half":
            low = s.x.to(torch.bfloat16).to(torch.float32)
            s.x = net.blocks[at](s.x) + low.to(s.x.dtype).detach() * 0.5
        else:
            order = s.x.argsort(-1)
            s.x = net.blocks[at](s.x).gather(-1, order)
    return run, how


@move()
def no_gradient(net, draw):
    at, how = plain(net), draw.choice(["detach", "no_grad", "no_grad block"])

    def run(net, s):
        x = net.blocks[at](s.x)
        if how == "detach":
            x = x + x.detach().mean(-1, keepdim=True)
        else:
            with torch.no_grad():
                other = net.blocks[at](x) if how == "no_grad block" else x.mean(-1, keepdim=True)
            x = x + other
        s.x = x
    return run, how


@move()
def shared_block(net, draw):
    at, others = add(net, draw.choice([Block, Residual, Averaging, Counts])()), draw.randrange(1, 3)
    more = [plain(net) for _ in range(others)]

    def run(net, s):
        s.x = net.blocks[at](s.x)
        for other in more:
            s.x = net.blocks[other](s.x)
        s.x = net.blocks[at](s.x)
    return run, type(net.blocks[at]).__name__


@move(1.5)
def tied(net, draw):
    first, second, how = plain(net), plain(net), draw.choice(["module", "functional", "bias", "embedding", "slice"])
    if how == "module":
        net.blocks[second].lin.weight = net.blocks[first].lin.weight
    if how == "bias":
        net.shift = nn.Parameter(torch.zeros(WIDTH) + 0.1)

    def run(net, s):
        x = net.blocks[first](s.x)
        if how == "bias":
            x = x + net.shift
        x = net.blocks[second](x)
        if how == "functional":
            x = F.linear(x, net.blocks[first].lin.weight, net.blocks[first].lin.bias)
        elif how == "bias":
            x = x * (1 + net.shift)
        elif how == "embedding" and net.embedding is not None:
            x = (x @ net.embedding.weight.T).softmax(-1) @ net.embedding.weight
        elif how == "slice":
            x = x + net.blocks[first].lin.weight[0]
        s.x = torch.tanh(x)
    return run, how


@move()
def shared_norm(net, draw):
    first, second = add(net, Two()), add(net, Two())
    how = draw.choice(["layer norm", "batch norm", "averaging"])
    net.blocks[first].norm = net.blocks[second].norm = (
        nn.LayerNorm(WIDTH) if how == "layer norm" or net.rows == 1 else nn.BatchNorm1d(WIDTH) if how == "batch norm"
        else Averaging())

    def run(net, s):
        for at in (first, second):
            y = net.blocks[at](s.x, s.x)
            s.x = net.blocks[at].norm(y.flatten(0, -2)).view_as(y) + s.x
    return run, how


@move()
def views(net, draw):
    at, other, how = plain(net), plain(net), draw.choice(["chunk", "expand", "transpose", "stride", "both"])

    def run(net, s):
        x = net.blocks[at](s.x)
        if how == "chunk":
            a, b = x.chunk(2, -1)
            x = net.blocks[other](s.x) + torch.cat([b, a], -1)
        elif how == "expand":
            wide = x.mean(-1, keepdim=True).expand_as(x)
            x = net.blocks[other](x) + wide
        elif how == "transpose":
            turned = x.transpose(0, -1)
            x = net.blocks[other](x) + turned.transpose(0, -1)
        elif how == "stride":
            odd = x[..., ::2]
            x = net.blocks[other](x) + torch.cat([odd, odd], -1)
        else:
            whole, part = x, x[..., 1:]
            y = net.blocks[other](x)
            x = y + whole * 0.5 + F.pad(part, (0, 1))
        s.x = x
    return run, how


@move(0.7)
def draws(net, draw):
    at, how = plain(net), draw.choice(["randn", "dropout", "rand"])

    def run(net, s):
        x = net.blocks[at](s.x)
        s.x = x + 0 * (torch.randn_like(x) if how == "randn" else torch.rand(x.shape, dtype=x.dtype) if how == "rand"
                       else F.dropout(x.detach(), 0.5, True))
    return run, how


@move(0.1)
def outside(net, draw):
    """Drawn or counted outside of PyTorch, or decided by data, which is always refused."""
    at, how = plain(net), draw.choice(["random", "calls", "if", "calls of a buffer"])
    net.calls, net.numbers = 0, random.Random(draw.randrange(99))
    if how == "calls of a buffer":
        net.register_buffer("seen", torch.zeros(()))

    def run(net, s):
        net.calls += 1
        x = net.blocks[at](s.x)
        if how == "random":
            x = x * (0.5 + net.numbers.random())
        elif how == "calls":
            x = x * (1 + 0.1 * net.calls)
        elif how == "if":
            x = x * 2 if x.sum() > 0 else x
        else:
            net.seen += 1
            x = x * (1 / (1 + net.seen))
        s.x = x
    return run, how


@move()
def buffer_of_root(net, draw):
    """Running numbers of a module that is taken apart."""
    at, how = plain(net), draw.choice([*["count", "average", "copy", "read"] * 3, "average anew"])
    net.register_buffer("average", torch.zeros(WIDTH))
    net.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def run(net, s):
        x = net.blocks[at](s.x)
        if how == "count":
            net.steps += 1
        mean = x.detach().flatten(0, -2).mean(0)
        if how in ("average", "read"):
            net.average.mul_(0.9).add_(0.1 * mean)
        elif how == "average anew":
            net.average = net.average * 0.9 + mean * 0.1
        elif how == "copy":
            net.average.copy_(mean)
        s.x = x - net.average if how in ("read", "average anew") else x
    return run, how


@move()
def told_by_attribute(net, draw):
    at = add(net, Telling())
    how = draw.choice(["reads", *["ignores"] * 9])  # it is always refused where it reads

    def run(net, s):
        s.x = net.blocks[at](s.x)
        if how == "reads":
            s.x = s.x / (1 + net.blocks[at].peak)
    return run, how


@move(0.15)
def whisper(net, draw):
    shared: Dict[str, Any] = {}
    writer, reader = add(net, Whispers(shared, True)), add(net, Whispers(shared, False))

    def run(net, s):
        s.x = net.blocks[reader](net.blocks[writer](s.x))
    return run


@move()
def hooks(net, draw):
    at, how = plain(net), draw.choice(["forward", "before", "backward", "tensor", "parameter"])
    if how == "forward":
        net.blocks[at].register_forward_hook(lambda module, args, result: result * 2)
    elif how == "before":
        net.blocks[at].register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
    elif how == "backward":
        net.blocks[at].register_full_backward_hook(lambda module, slopes, _: (slopes[0] * 2,))
    elif how == "parameter":
        net.blocks[at].lin.weight.register_hook(lambda slope: slope * 2)

    def run(net, s):
        x = net.blocks[at](s.x)
        if how == "tensor" and x.requires_grad:
            x.register_hook(lambda slope: slope * 2)
        s.x = x
    return run, how


@move(0.7)
def regions(net, draw):
    at, how = plain(net), draw.choice(["autocast", "no autocast", "checkpoint", "function"])
    net.uses_autocast |= how == "autocast"

    def run(net, s):
        if how == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                x = net.blocks[at](s.x) @ torch.eye(WIDTH, dtype=s.x.dtype)
            s.x = x.to(s.x.dtype)
        elif how == "no autocast":
            with torch.autocast("cpu", enabled=False):
                s.x = net.blocks[at](s.x.to(net.blocks[at].lin.weight.dtype)).exp() * 0.3
        elif how == "checkpoint":
            s.x = checkpoint(net.blocks[at], s.x, use_reentrant=False)
        else:
            s.x = torch.tanh(Twice.apply(net.blocks[at](s.x)))
    return run, how


@move(0.7)
def unused(net, draw):
    """A module that does not run, an output that nobody reads."""
    at, _ = plain(net), plain(net)

    def run(net, s):
        net.blocks[at](s.x)
        s.more["first"] = s.x[..., :1]
    return run


# --- the whole -----------------------------------------------------------------------------------

class Drawn(nn.Module):
    """Blocks and moves."""

    def __init__(self, rows: int, has_ids: bool, result: str) -> None:
        super().__init__()
        self.rows, self.result = rows, result
        self.embedding = nn.Embedding(WORDS, WIDTH) if has_ids else None
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks, self.last = nn.ModuleList(), nn.Linear(WIDTH, WIDTH)
        self.moves: List[Callable] = []
        self.changes: List[Tuple[str, Callable]] = []
        self.uses_autocast = False

    def forward(self, x, ids=None, mask=None, scale=1.0):
        if self.embedding is not None and not x.is_floating_point():
            ids, x = x, self.embedding(x)
        s = Flow(self.first(x), ids, mask, scale)
        for run in self.moves:
            run(self, s)
        out = self.last(s.x)
        if self.result == "loss":
            return out.float().pow(2).mean() + 0.1 * sum(s.losses)
        if self.result == "tensor" and not s.losses:
            return out
        if self.result == "tuple":
            return (out, s.x, *s.losses)
        return {"out": out, "losses": s.losses, **s.more}


def out_of(result):
    """The output, and the auxiliary losses."""
    if isinstance(result, torch.Tensor):
        return result, []
    if isinstance(result, tuple):
        return result[0], list(result[2:])
    return result["out"], result["losses"]


class MeanSquare(nn.Module):
    """A loss with a parameter, or without."""

    def __init__(self, learns: bool, sums: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(())) if learns else 1.0
        self.sums = sums

    def forward(self, result, target):
        out, losses = out_of(result)
        far = (out * self.scale - target).float().pow(2)
        return (far.sum() * 0.01 if self.sums else far.mean()) + 0.1 * sum(losses)


def cross_entropy(result, target):
    out, losses = out_of(result)
    return F.cross_entropy(out.flatten(0, -2).float(), target.flatten()) + 0.1 * sum(losses)


class DrawnCase:
    """A module, what it is handed, and its loss."""

    def __init__(self, seed: int, micro_batches: int, without: FrozenSet[int]) -> None:
        draw = random.Random(seed)
        self.seed, self.micro_batches_number = seed, micro_batches
        self.rows, self.length = draw.choice([1, 2, 2, 3]), draw.choice([None, 3])
        self.inputs = draw.choice(["x", "x", "ids", "x and ids", "named", "named"])
        result = draw.choice(["tensor", "dictionary", "tuple", "loss"])
        loss = draw.choice(["mean", "mean", "sum", "learned", "classes"])
        self.is_double = draw.random() < 0.06
        torch.manual_seed(seed)
        self.net = Drawn(self.rows, self.inputs == "ids", result)
        self.moves: List[Tuple[int, str]] = []
        for number in range(draw.randrange(5, 10)):
            made = draw.choices([one for one, _ in MOVES], [weight for _, weight in MOVES])[0]
            own = random.Random(f"{seed} {number}")
            if number in without:
                continue
            torch.manual_seed(seed * 100 + number)
            run = made(self.net, own)
            run, how = run if isinstance(run, tuple) else (run, "")
            self.net.moves.append(run)
            self.moves.append((number, f"{made.__name__}{f' ({how})' if how else ''}"))
        self.has_classes = loss == "classes"
        self.average = loss != "sum"
        torch.manual_seed(seed)
        self.loss_fn = (None if result == "loss" else cross_entropy if self.has_classes
                        else MeanSquare(loss == "learned", not self.average))
        if result == "loss":
            self.average = True
        self.uses_autocast = self.net.uses_autocast or any("bf16" in name for _, name in self.moves)
        if draw.random() < 0.1:  # a first stage that learns nothing
            for module in (self.net.first, *([self.net.embedding] if self.net.embedding is not None else [])):
                module.requires_grad_(False)
        if self.is_double:
            self.net.double()
            if isinstance(self.loss_fn, nn.Module):
                self.loss_fn.double()

    def named_parameters(self):
        yield from self.net.named_parameters()
        if isinstance(self.loss_fn, nn.Module):
            yield from ((f"loss_fn.{name}", parameter) for name, parameter in self.loss_fn.named_parameters())

    def all_parameters(self):
        return [parameter for _, parameter in self.named_parameters()]

    def loss_of(self, result, target):
        if self.loss_fn is None:
            return result
        return self.loss_fn(result, target)

    def batch(self, number: int) -> Tuple[tuple, Dict[str, Any], Any]:
        """Positional and named arguments of an iteration, and its target."""
        numbers = torch.Generator().manual_seed(self.seed * 7 + number)
        rows = self.rows * self.micro_batches_number
        shape = (rows,) if self.length is None else (rows, self.length)
        kind = torch.float64 if self.is_double else torch.float32
        x = torch.randn(*shape, WIDTH, generator=numbers, dtype=kind)
        ids = torch.randint(0, WORDS, shape, generator=numbers)
        target = (torch.randint(0, WIDTH, shape, generator=numbers) if self.has_classes
                  else torch.randn(*shape, WIDTH, generator=numbers, dtype=kind) + 1)
        target = None if self.loss_fn is None else target
        if self.inputs == "x":
            return (x,), {}, target
        if self.inputs == "ids":
            return (ids,), {}, target
        if self.inputs == "x and ids":
            return (x, ids), {}, target
        return (), {"x": x, "ids": ids, "mask": ids > 6, "scale": 0.75}, target

    def micro_batches(self, number: int) -> List[Tuple[tuple, Dict[str, Any], Any]]:
        def cut(thing, place):
            return thing.chunk(self.micro_batches_number)[place] if isinstance(thing, torch.Tensor) else thing
        args, named, target = self.batch(number)
        return [(tuple(cut(one, place) for one in args), {key: cut(one, place) for key, one in named.items()},
                 cut(target, place)) for place in range(self.micro_batches_number)]

    def sample(self) -> Any:
        args, named, _ = self.micro_batches(0)[0]
        return named if named else args if len(args) > 1 else args[0]

    def change(self, number: int, seed: int) -> str:
        """Changes something that a user may change between steps."""
        def replace_weight(net, draw):
            net.first.weight = nn.Parameter(net.first.weight.detach() * 0.5)

        def replace_block(net, draw):
            torch.manual_seed(seed)
            net.last = nn.Linear(WIDTH, WIDTH).to(net.last.weight.dtype)

        def scale_weights(net, draw):
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.mul_(0.9)

        def load(net, draw):
            net.load_state_dict({name: tensor * 0.9 if tensor.is_floating_point() or tensor.is_complex() else tensor
                                 for name, tensor in net.state_dict().items()})

        def freeze(net, draw):
            net.first.requires_grad_(False)

        def hook(net, draw):
            net.last.register_forward_hook(lambda module, args, result: result * 2)

        always = [("a weight is another", replace_weight), ("a module is another", replace_block),
                  ("weights scaled", scale_weights), ("state loaded", load), ("frozen", freeze), ("hooked", hook),
                  ("eval of a block", lambda net, draw: net.last.eval())]
        own = self.net.changes
        changes = own if own and number % 4 else always
        name, what = changes[number // 4 % len(changes)]
        what(self.net, random.Random(seed))
        return name


def draw(seed: int, micro_batches: int, without: FrozenSet[int] = frozenset()) -> DrawnCase:
    return DrawnCase(seed, micro_batches, without)
