"""What a model reads besides its tensors: a step is the whole model's of that moment, or it is refused on every rank."""

import copy
import os
import random as numbers
import sys
import types
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, mse_loss

import pipeline_models
import weir
from plans import plan_of
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.torch import pipeline, verify
from weir.torch.verification import _difference

LAYERS = [f"mid.{layer}" for layer in range(4)]
TIED = ["embedding", *(f"layers.{layer}" for layer in range(4)), "late", "head"]


class Told(nn.Module):
    """Everything that a forward may read, between layers that are called as they are."""

    def __init__(self, reads: str = ""):
        super().__init__()
        torch.manual_seed(6)
        self.reads = reads
        self.mid = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5)) for _ in range(4))
        self.temperature, self.powers, self.calls, self.unread = 1.0, [1.0, 2.0], 0, 0
        self.config = types.SimpleNamespace(inner=types.SimpleNamespace(factor=1.0))
        self.register_buffer("gain", torch.tensor(1.0))
        self.register_buffer("live", torch.ones(16))

    def forward(self, x, scale=1.0):
        self.calls += 1
        gain = self.gain * 2
        for layer in self.mid:
            x = torch.tanh(layer(x)) * scale * self.powers[1] * self.config.inner.factor / self.temperature
        if self.reads == "calls":
            x = x * self.calls
        if self.reads == "random":
            x = x * numbers.random()
        if self.reads == "dropout":
            x = dropout(x, 0.25, self.training)
        return x * gain * self.live


def batch(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def said_of(what):
    try:
        what()
        return "done"
    except weir.WeirError as error:
        return f"{error.code}: {error}"


def farthest(pipe, whole):
    """The largest relative difference of a gradient."""
    theirs = dict(whole.named_parameters())
    return max(((mine.grad - theirs[name].grad).abs().max() / theirs[name].grad.abs().max()).item()
               for name, mine in pipe.named_parameters())


CHANGES = {
    "nothing": lambda net: None,
    "attribute": lambda net: setattr(net, "temperature", 5.0),
    "list": lambda net: net.powers.__setitem__(1, 3.0),
    "object": lambda net: setattr(net.config.inner, "factor", 0.5),
    "buffer": lambda net: net.gain.fill_(3.0),
    "buffer that steps read": lambda net: net.live.fill_(0.5),
    "attribute that nobody reads": lambda net: setattr(net, "unread", 7),
    "train": lambda net: net.train(),
    "frozen": lambda net: net.mid[0][0].weight.requires_grad_(False),
}


def changed_between(rank, plan):
    """By kind of change: what a step says, and how far its gradients are from those of the whole model."""
    x, y, found = batch(8, 16), batch(8, 16) + 1, {}
    for what, change in CHANGES.items():
        model = Told("dropout" if what == "train" else "").eval()
        whole = copy.deepcopy(model)
        pipe = pipeline(model, plan, x[:2], loss_fn=mse_loss)
        pipe.step(x, target=y)
        for parameter in pipe.parameters():
            parameter.grad = None
        change(model), change(whole)
        said = said_of(lambda: pipe.step(x, target=y))
        if said == "done":
            mse_loss(whole(x), y).backward()
            found[what] = said, farthest(pipe, whole)
        else:
            found[what] = said, 0.0
    return found


def called_with(rank, plan):
    x, y = batch(8, 16), batch(8, 16) + 1
    pipe = pipeline(Told().eval(), plan, {"x": x[:2], "scale": 1.0}, loss_fn=mse_loss)
    return [said_of(lambda: pipe.step(x=x, scale=scale, target=y)) for scale in (1.0, 3.0)]


def modes(rank, plan):
    """A model of modules alone, made in train mode, in eval mode; and one that reads its mode."""
    x, y, found = batch(8, 16), batch(8, 16) + 1, []
    for reads in ("", "dropout"):
        model = Told(reads)
        whole = copy.deepcopy(model).eval()
        pipe = pipeline(model, plan, x[:2], loss_fn=mse_loss)
        model.eval()
        said = said_of(lambda: pipe.step(x, target=y))
        mse_loss(whole(x), y).backward()
        found.append((said, farthest(pipe, whole) if said == "done" else 0.0))
    return found


class Whispering(nn.Module):
    """A block that leaves what it made in an object that other blocks have, or only reads that object."""

    def __init__(self, shared, writes):
        super().__init__()
        self.linear, self.shared, self.writes = nn.Linear(16, 16), shared, writes

    def forward(self, x):
        x = torch.tanh(self.linear(x)) + self.shared.get("x", 0)
        if self.writes:
            self.shared["x"] = x.detach()
        return x


def shared_by(writes):
    shared, net = {"gain": 2.0}, Told().eval()
    net.mid = nn.ModuleList(Whispering(shared, writes and place == 0) for place in range(4))
    return net


def made_anew(rank, plan):
    nets = [Told("calls").eval(), Told("random").eval(), shared_by(True), shared_by(False)]
    return [said_of(lambda: pipeline(net, plan, batch(2, 16), loss_fn=mse_loss)) for net in nets]


def without_inputs(rank, plan):
    """The second rank needs none, and sees a change all the same."""
    x, y, model = batch(8, 16), batch(8, 16) + 1, Told().eval()
    pipe = pipeline(model, plan, x[:2], loss_fn=mse_loss)
    inputs = (x,) if rank == 0 else ()
    first = said_of(lambda: pipe.step(*inputs, target=y))
    model.temperature = 5.0
    return first, said_of(lambda: pipe.step(*inputs, target=y))


def accumulated(rank, plan):
    """Two steps without zero_grad of weights on two stages, clipped then; and ranks that were seeded apart."""
    model = pipeline_models.Tied()
    whole = copy.deepcopy(model)
    ids, scale, target = torch.arange(80).reshape(16, 5) % 11, batch(16, 5, 1), torch.arange(80).reshape(16, 5) % 7
    loss = lambda output, target: cross_entropy(output["logits"].flatten(0, 1), target.flatten())
    pipe = pipeline(model, plan, (ids[:4], scale[:4]), loss_fn=loss)
    for step in range(2):
        pipe.step(ids + step, scale, target=target) if step == 0 else pipe.step(ids, scale * 2, target=target)
        loss(whole(ids + step, scale) if step == 0 else whole(ids, scale * 2), target).backward()
    far = farthest(pipe, whole)
    norms = pipe.clip_grad_norm_(0.01).item(), nn.utils.clip_grad_norm_(whole.parameters(), 0.01).item()
    clipped = farthest(pipe, whole)
    apart = pipeline_models.Tied()
    with torch.no_grad():
        apart.embedding.weight += rank
    pipeline(apart, plan, (ids[:4], scale[:4]), loss_fn=loss)
    return max(far, clipped, abs(norms[0] / norms[1] - 1)), apart.embedding.weight.sum().item()


def under_autocast(rank, plan):
    """Whether stages were made under it, and whether a step is."""
    x, y, found = batch(8, 16), batch(8, 16) + 1, {}
    for built in (False, True):
        for stepped in (False, True):
            model = pipeline_models.chain(8)
            whole = copy.deepcopy(model)
            with torch.autocast("cpu", torch.bfloat16, enabled=built):
                pipe = pipeline(model, plan, x[:2], loss_fn=mse_loss)
            with torch.autocast("cpu", torch.bfloat16, enabled=stepped):
                said = said_of(lambda: pipe.step(x, target=y))
                loss = mse_loss(whole(x), y)
            loss.backward()
            found[built, stepped] = said, farthest(pipe, whole) if said == "done" else 0.0
    return found


class Scaled(nn.Module):
    """A loss with a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, output, target):
        return mse_loss(output * self.scale, target)


def with_loss(rank, plan):
    loss = Scaled()
    model, x, y = pipeline_models.chain(8), batch(8, 16), batch(8, 16) + 1
    found = verify(model, plan, x, y, loss, steps=2)
    pipe = pipeline(model, plan, x[:2], loss_fn=loss)
    return found.equal, found.compared, [name for name, _ in pipe.named_parameters() if "loss" in name], loss.scale.grad


class State(unittest.TestCase):
    def test_parameters_of_a_loss_are_the_last_stages(self):
        first, last = on_ranks(2, with_loss, plan_of([str(layer) for layer in range(8)], "1f1b", 2, 4))
        self.assertEqual((True, 17, [], None), first)
        self.assertEqual((True, 17, ["loss_fn.scale"], None), last)
        loss = Scaled()
        weir.profile(pipeline_models.chain(2), batch(2, 16), loss_fn=loss, target=batch(2, 16), repeats=1)
        self.assertIsNone(loss.scale.grad)

    def test_what_changes_between_steps_is_seen_or_refused(self):
        wanted = {"attribute": "2: temperature has changed since the stages were made, and they have it as it was (div is "
                               "handed 5.0 in place of 1.0)",
                  "list": "2: powers has changed", "object": "2: config has changed",
                  "buffer": "2: gain has changed since the stages were made, and they have it as it was (mul is handed 6 "
                            "in place of 2)",
                  "frozen": "2: requires_grad of mid.0.0.weight has changed since the stages were made"}
        for found in on_ranks(2, changed_between, plan_of(LAYERS, "1f1b", 2, 4)):
            for what, (said, far) in found.items():
                self.assertTrue(said.startswith(wanted.get(what, "done")), (what, said))
                if what != "train":  # where each drops other numbers
                    self.assertLess(far, 1e-5, what)

    def test_numbers_that_the_model_is_handed_are_the_samples(self):
        for same, other in on_ranks(2, called_with, plan_of(LAYERS, "1f1b", 2, 4)):
            self.assertEqual("done", same)
            self.assertIn("2: a number or another argument that is no tensor has changed since the stages were made, and "
                          "they have it as it was (mul is handed 3.0 in place of 1.0)", other)

    def test_a_mode_may_change(self):
        for found in on_ranks(2, modes, plan_of(LAYERS, "1f1b", 2, 4)):
            for said, far in found:
                self.assertEqual("done", said)
                self.assertLess(far, 1e-5)

    def test_what_is_counted_drawn_or_whispered_is_refused_at_once(self):
        for said in on_ranks(2, made_anew, plan_of(LAYERS, "1f1b", 2, 4)):
            for one in said[:2]:
                self.assertIn("2: the model does other steps each time that it runs (mul is handed", one)
            self.assertIn("2: mid.0.shared is an object that modules of several stages have, and a forward changes it",
                          said[2])
            self.assertEqual("done", said[3])

    def test_a_rank_without_inputs_sees_changes_too(self):
        for first, then in on_ranks(2, without_inputs, plan_of(LAYERS, "1f1b", 2, 4)):
            self.assertEqual("done", first)
            self.assertIn("2: temperature has changed", then)

    def test_tied_weights_get_this_steps_sum_and_count_once(self):
        found = on_ranks(2, accumulated, plan_of(TIED, "1f1b", 2, 4))
        self.assertLess(max(far for far, _ in found), 1e-5)
        self.assertEqual(found[0][1], found[1][1])

    def test_autocast_is_that_of_the_step(self):
        for found in on_ranks(2, under_autocast, plan_of([str(layer) for layer in range(8)], "1f1b", 2, 4)):
            for (_, stepped), (said, far) in found.items():
                self.assertEqual("done", said)
                self.assertLess(far, 2e-2 if stepped else 1e-5)

    def test_imaginary_parts_are_compared(self):
        found = _difference(torch.tensor([3 + 4j]), torch.tensor([3 + 3.5j]), "w").relative
        self.assertAlmostEqual(0.5 / abs(3 + 3.5j), found, 6)


if __name__ == "__main__":
    unittest.main()
