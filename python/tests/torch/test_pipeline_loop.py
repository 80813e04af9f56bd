"""What stands around a step in a training loop, each held against the module on one process."""

import copy
import os
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

import pipeline_models
import weir
from plans import plan_of
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.torch import pipeline, verify

CHAIN = [str(layer) for layer in range(8)]
FOUR = [f"layers.{layer}" for layer in range(4)]


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def mean_square(output, target):
    return ((output - target) ** 2).mean()


def refused(what):
    try:
        what()
    except weir.WeirError as error:
        return str(error)
    return "done"


def layers(*kinds, width=16):
    torch.manual_seed(2)
    return nn.ModuleList(kind(width, width) for kind in kinds or (nn.Linear,) * 4)


class Words(nn.Module):
    """Classes of words, some of which are padding."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.layers, self.head = nn.Embedding(11, 16), layers(), nn.Linear(16, 11)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


class Masked(nn.Module):
    """Time first, a mask of all times with all, a number without dimensions, and a dictionary."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x, mask=None, scale=None, more=None):
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if mask is not None:
                x = torch.einsum("ts,sbw->tbw", mask, x)
        if scale is not None:
            x = x * scale
        return x + more["bias"][None] if more is not None else x


class Dropping(nn.Module):
    """Drops by a function that is told the mode, so that the two modes have other steps."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.dropout(torch.tanh(layer(x)), 0.5, self.training)
        return x


class Normed(nn.Module):
    """Batch norm behind each layer; `shared`: the same one."""

    def __init__(self, shared=False):
        super().__init__()
        self.layers = layers()
        norms = [nn.BatchNorm1d(16) for _ in range(4)]
        self.norms = nn.ModuleList(norms[:1] * 4 if shared else norms)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = torch.tanh(norm(layer(x)))
        return x


class Averaged(nn.Module):
    """A running mean that the first and the third layer change and read."""

    def __init__(self):
        super().__init__()
        self.layers = layers()
        self.register_buffer("average", torch.zeros(16))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if number in (0, 2):
                self.average.mul_(0.9).add_(0.1 * x.detach().mean(0))
                x = x - self.average
        return x


def averages(rank, plans):
    return {name: refused(lambda: pipeline(Averaged(), plan, random(4, 16), loss_fn=mean_square))
            for name, plan in plans.items()}


def padded_labels():
    ids = torch.randint(0, 11, (8, 6), generator=torch.Generator().manual_seed(3))
    labels = ids.clone()
    for row in range(8):
        labels[row, 6 - row // 2 - 1:] = -100
    return ids, labels


def words_loss(output, target):
    return cross_entropy(output.flatten(0, 1), target.flatten())


def words_sum(output, target):
    return cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum"), (target != -100).sum()


def gradients_of(module):
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def worst(pipe, whole):
    theirs = gradients_of(whole)
    return max(((parameter.grad - theirs[name]).abs().max() / theirs[name].abs().max()).item()
               for name, parameter in pipe.named_parameters())


# --- on two ranks ---

def evaluations(rank, plans):
    said = {}
    for name, plan in plans.items():
        for make in (lambda: pipeline_models.chain(8), Dropping):
            model, x, y = make(), random(16, 16), random(16, 16) + 1
            layers_plan = plan if isinstance(model, nn.Sequential) else None
            if layers_plan is None:
                layers_plan = plan_of(FOUR, name, 2, 4)
            pipe = pipeline(model, layers_plan, x[:4], loss_fn=mean_square)
            pipe.step(x, target=y)
            whole = copy.deepcopy(model).eval()
            before = [parameter.grad.clone() for parameter in pipe.parameters()]
            found = pipe.eval(x, target=y)
            small = pipe.eval(x[:8], target=y[:8])
            bare = pipe.eval(x)
            with torch.no_grad():  # of a model whose weights this rank has trained in part: it has not stepped
                wanted = whole(x)
            key = f"{name} {type(model).__name__}"
            said[key] = [model.training, all(torch.equal(a, b.grad) for a, b in zip(before, pipe.parameters()))]
            if found.outputs is not None:
                parts = zip(wanted.chunk(4), y.chunk(4))
                said[key] += [torch.allclose(found.outputs, wanted, atol=1e-6),
                              torch.allclose(small.outputs, wanted[:8], atol=1e-6), bare.losses == [],
                              torch.allclose(torch.stack(found.losses),
                                             torch.stack([mean_square(a, b) for a, b in parts])),
                              not found.losses[0].requires_grad]
    model = pipeline_models.chain(8)
    order = weir.schedule("forward-only", ranks=2, micro_batches=4)
    made = pipeline(model, plans["1f1b"], random(4, 16), schedule=order).step(random(16, 16))
    said["forward-only"] = [made is None or torch.allclose(made, model(random(16, 16)), atol=1e-6)]
    pipe = pipeline(model, plans["1f1b"], random(4, 16), loss_fn=mean_square)
    with torch.no_grad():
        said["no_grad"] = refused(lambda: pipe.step(random(16, 16), target=random(16, 16)))
    return said


def losses_over_all(rank, plans):
    ids, labels = padded_labels()
    said = {}
    for name, plan in plans.items():
        whole = Words()
        loss = words_loss(whole(ids), labels)
        loss.backward()
        pipe = pipeline(Words(), plan, ids[:2], loss_fn=words_sum)
        losses = pipe.step(ids, target=labels)
        first = worst(pipe, whole)
        pipe.step(ids, target=labels)  # added to what is there
        words_loss(whole(ids), labels).backward()
        said[name] = (first, worst(pipe, whole), abs((sum(losses) - loss).item()) if losses else 0.0,
                      sum(pipe.eval(ids, target=labels).losses).item() - loss.item() if losses else
                      len(pipe.eval(ids, target=labels).losses))
    mean = verify(Words(), plans["1f1b"], ids, labels, lambda *both: words_loss(*both).log().exp())  # nobody sees a mean
    counted = verify(Words(), plans["1f1b"], ids, labels, words_sum, steps=2)
    said["accuracy"] = refused(lambda: weir.profile(Words(), ids[:2], lambda *both: (words_loss(*both), torch.ones(())),
                                                    labels[:2], repeats=1))
    said["verify"] = (mean.within(1e-5), str(mean), counted.within(1e-5), str(counted))
    return said


def batch_norms(rank, plans, shared_plan):
    said = {}
    x, y = random(16, 16), random(16, 16)
    for name, plan in plans.items():
        whole = Normed()
        model = Normed()
        pipe = pipeline(model, plan, x[:4], loss_fn=mean_square, deferred_batch_norm=True)
        for _ in range(2):
            pipe.step(x, target=y)
        # Each layer's input over the whole iteration, of micro-batches that are normalised by themselves.
        for _ in range(2):
            with torch.no_grad():
                parts = list(x.chunk(4))
                for layer, norm in zip(whole.layers, whole.norms):
                    parts = [layer(part) for part in parts]
                    together = torch.cat(parts)
                    norm.running_mean.lerp_(together.mean(0), 0.1)
                    norm.running_var.lerp_(together.var(0), 0.1)
                    norm.num_batches_tracked += 1
                    parts = [torch.tanh(nn.functional.batch_norm(part, None, None, norm.weight, norm.bias, True))
                             for part in parts]
        theirs = dict(whole.named_buffers())
        said[name] = max((mine.double() - theirs[key].double()).abs().max().item() for key, mine in pipe.named_buffers())
    said["shared"] = refused(lambda: pipeline(Normed(shared=True), shared_plan, x[:4], loss_fn=mean_square))
    pipe = pipeline(Normed(shared=True), shared_plan, x[:4], loss_fn=mean_square, deferred_batch_norm=True)
    pipe.step(x, target=y)
    said["deferred"] = {key: buffer.tolist() for key, buffer in pipe.named_buffers() if "mean" in key or "num" in key}
    return said


def cut_in_all_ways(rank, plan):
    said = {}
    x, y, mask = random(5, 8, 16), random(5, 8, 16), random(5, 5).softmax(1)
    scale, bias = torch.tensor(3.0), random(8, 16)

    def one(name, step, sample, model_call, **how):
        model = Masked()
        whole = copy.deepcopy(model)
        pipe = pipeline(model, plan, sample, loss_fn=mean_square, target_chunk_spec=1, **how)
        step(pipe)
        mean_square(model_call(whole), y).backward()
        said[name] = worst(pipe, whole)

    one("a number without dimensions", lambda pipe: pipe.step(x, mask, scale, target=y), (x[:, :2], mask, scale),
        lambda whole: whole(x, mask, scale), chunk_spec=(1, None, None))
    one("a dictionary in an argument", lambda pipe: pipe.step(x, more={"bias": bias}, target=y),
        weir.call(x[:, :2], more={"bias": bias[:2]}), lambda whole: whole(x, more={"bias": bias}),
        chunk_spec=weir.call(1, more=0))
    one("one dictionary of arguments", lambda pipe: pipe.step({"x": x, "mask": mask}, target=y),
        {"x": x[:, :2], "mask": mask}, lambda whole: whole(x, mask), chunk_spec={"x": 1, "mask": None})
    one("told", lambda pipe: pipe.step(x, mask=mask, target=y), weir.call(x[:, :2], mask=mask),
        lambda whole: whole(x, mask=mask), chunk_spec=weir.call(1, mask=None))
    pipe = pipeline(Masked(), plan, x[:, :2], loss_fn=mean_square)
    said["ambiguous"] = refused(lambda: pipe.step(x, target=y))
    square, model = random(16, 16).softmax(1), Masked()
    pipe, whole = pipeline(model, plan, weir.call(random(16, 2, 16), mask=square), loss_fn=mean_square,
                           chunk_spec=weir.call(1, mask=None), target_chunk_spec=1), copy.deepcopy(model)
    pipe.step(random(16, 8, 16), mask=square, target=random(16, 8, 16))
    mean_square(whole(random(16, 8, 16), mask=square), random(16, 8, 16)).backward()
    said["a square mask"] = worst(pipe, whole)
    model = pipeline_models.chain(8)
    pipe = pipeline(model, plan_of(CHAIN, "1f1b", 2, 4), random(4, 16), loss_fn=mean_square)
    said["the sample itself"] = refused(lambda: pipe.step(random(4, 16), target=random(16, 16)))
    whole = pipeline_models.chain(8)
    for rows in (16, 8, 12, 16):
        pipe.step(random(rows, 16), target=random(rows, 16))
        mean_square(whole(random(rows, 16)), random(rows, 16)).backward()
    said["smaller batches"] = worst(pipe, whole)
    return said


def precision(rank, plans):
    said = {}
    x, y = random(16, 16), random(16, 16)
    for name, plan in plans.items():
        model, whole = pipeline_models.chain(8), pipeline_models.chain(8)
        pipe = pipeline(model, plan, x[:4], loss_fn=mean_square)
        with torch.autocast("cpu", torch.bfloat16):
            pipe.step(x, target=y)
            for part, wanted in zip(x.chunk(4), y.chunk(4)):
                (mean_square(whole(part), wanted) / 4).backward()
        said[name] = worst(pipe, whole)
    model, whole = pipeline_models.chain(8), pipeline_models.chain(8)
    pipe = pipeline(model, plans["1f1b"], x[:4], loss_fn=mean_square)
    mine, theirs = torch.optim.SGD(pipe.parameters(), 0.1), torch.optim.SGD(whole.parameters(), 0.1)
    scaler, single = (torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2) for _ in range(2))
    scales = []
    for step in range(6):
        data = x * (torch.inf if step == 3 else 1)  # an overflow that only the first stage sees in its weights
        mine.zero_grad()
        theirs.zero_grad()
        pipe.step(data, target=y, scaler=scaler)
        pipe.unscale_(scaler, mine)
        scaler.step(mine)
        scaler.update()
        for part, wanted in zip(data.chunk(4), y.chunk(4)):
            single.scale(mean_square(whole(part), wanted) / 4).backward()
        single.step(theirs)
        single.update()
        scales.append((scaler.get_scale(), single.get_scale()))
    weights = dict(whole.named_parameters())
    said["forgotten"] = refused(lambda: pipe.step(x, target=y, scaler=torch.amp.GradScaler("cpu", init_scale=2.0 ** rank)))
    said["scales"] = scales
    said["weights"] = max((parameter - weights[name]).abs().max().item() for name, parameter in pipe.named_parameters())
    return said


def first_half(rank, plan, folder):
    """Trains for three steps, and saves; then for three more, of which the losses are returned."""
    x, y = random(16, 16), random(16, 16)
    pipe = pipeline(pipeline_models.chain(8), plan, x[:4], loss_fn=mean_square)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def train(steps):
        losses = []
        for _ in range(steps):
            losses += pipe.step(x, target=y)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        return [loss.item() for loss in losses]

    train(1)
    pipe.save(os.path.join(folder, "run"), optimizer, step=1)
    train(2)
    unreadable = refused(lambda: pipe.save(os.path.join(folder, "run"), optimizer, step=mean_square))
    assert "save was given what torch.load(weights_only=True) does not read" in unreadable, unreadable
    assert torch.load(os.path.join(folder, "run", "more.pt"))["step"] == 1  # the one before is there
    pipe.save(os.path.join(folder, "run"), optimizer, step=3, scheduler=scheduler.state_dict())
    pipe.save_safetensors(os.path.join(folder, "weights"))
    assert sorted(os.listdir(os.path.join(folder, "run"))) == ["2", "more.pt"], os.listdir(os.path.join(folder, "run"))
    whole = pipe.state_dict(gathered=True)
    if rank == 0:
        torch.save(whole, os.path.join(folder, "whole.pt"))
    return train(3)


def second_half(rank, plan, folder):
    x, y = random(16, 16), random(16, 16)
    torch.manual_seed(9)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(8)))
    pipe = pipeline(model, plan, x[:4], loss_fn=mean_square)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=7.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    wrong = [refused(lambda: pipe.load(folder, optimizer)),
             refused(lambda: pipe.load_state_dict({"a": x})),
             refused(lambda: pipe.load_state_dict({**{f"{i}.0.weight": x for i in range(8)},
                                                   **{f"{i}.0.bias": x for i in range(8)}, "a": x}))]
    whole = torch.load(os.path.join(folder, "whole.pt"))
    found = []
    pipe.load_state_dict(whole)
    found.append(all(torch.equal(whole[name], value) for name, value in pipe.state_dict().items()))
    for parameter in pipe.parameters():
        nn.init.zeros_(parameter)
    pipe.load_safetensors(os.path.join(folder, "weights"))
    found.append(all(torch.equal(whole[name], value) for name, value in pipe.state_dict().items()))
    more = pipe.load(os.path.join(folder, "run"), optimizer)
    scheduler.load_state_dict(more["scheduler"])
    losses = []
    for _ in range(more["step"], 6):
        losses += pipe.step(x, target=y)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    again = pipe.state_dict(gathered=True)
    return found, wrong, [loss.item() for loss in losses], sorted(again)


def compiled(rank, plans):
    x, y, said = random(16, 16), random(16, 16), {}
    for name, plan in plans.items():
        model, whole = pipeline_models.chain(8), pipeline_models.chain(8)
        pipe = pipeline(model, plan, x[:4], loss_fn=mean_square, compile=True)
        for _ in range(2):
            pipe.step(x, target=y)
            mean_square(whole(x), y).backward()
        mine = [layer._compiled_call_impl is not None for layer in model]
        said[name] = worst(pipe, whole), sum(mine)
    return said


class Loop(unittest.TestCase):
    def plans(self, names=("1f1b", "zb-v", "interleaved"), of=None):
        return {name: plan_of(of or CHAIN, name, 2, 4) for name in names}

    def test_evaluation_is_the_modules_in_eval_mode(self):
        for rank, said in enumerate(on_ranks(2, evaluations, self.plans(("1f1b", "zb-v", "interleaved", "dualpipev")))):
            self.assertIn("step computes gradients, and is called under torch.no_grad(): call eval", said.pop("no_grad"))
            self.assertEqual(9, len(said))
            for name, found in said.items():
                self.assertTrue(all(found), (rank, name, found))

    def test_a_sum_and_its_count_give_the_mean_over_all(self):
        plans = self.plans(of=["words", *FOUR, "head"])
        plans["replicas"] = plan_of(["words", *FOUR, "head"], "1f1b", 2, 4, replicas=[2])
        for said in on_ranks(2, losses_over_all, plans):
            is_near, mean, is_equal, counted = said.pop("verify")
            self.assertIn("which is no whole number: return a loss alone", said.pop("accuracy"))
            self.assertFalse(is_near)
            self.assertIn("the loss is no mean over samples alike, as with padded labels", mean)
            self.assertTrue(is_equal, counted)
            for name, found in said.items():
                if name != "replicas":
                    self.assertLess(max(abs(number) for number in found), 1e-5, (name, found))
                self.assertLess(max(found[:2]), 1e-5, (name, found))

    def test_what_two_stages_of_a_rank_change_is_refused(self):
        plans = {"interleaved": plan_of(FOUR, "interleaved", 2, 4), "1f1b": plan_of(FOUR, "1f1b", 2, 4)}
        for said in on_ranks(2, averages, plans):
            self.assertIn("the forward changes average, which stages 0 and 2 have on one rank, where micro-batches would "
                          "change it in another order", said["interleaved"])
            self.assertIn("which stages 0 and 1 have on ranks of their own", said["1f1b"])

    def test_deferred_batch_norm(self):
        shared = plan_of([FOUR[0], *[f"norms.0{at}" for at in ("", "@2", "@3", "@4")][:1], *sum(
            ([FOUR[at], f"norms.0@{at + 1}"] for at in (1, 2, 3)), [])], "1f1b", 2, 4)
        of = sum(([FOUR[at], f"norms.{at}"] for at in range(4)), [])
        first, second = on_ranks(2, batch_norms, self.plans(of=of), shared)
        for said in (first, second):
            for name in ("1f1b", "zb-v", "interleaved"):
                self.assertLess(said[name], 1e-5)
            self.assertIn("which stages 0 and 1 have on ranks of their own, so that each would count for itself",
                          said["shared"])
        self.assertEqual(first["deferred"], second["deferred"])
        self.assertEqual({1}, {value for key, value in first["deferred"].items() if "num" in key})

    def test_inputs_are_cut_in_all_ways(self):
        for said in on_ranks(2, cut_in_all_ways, plan_of(FOUR, "1f1b", 2, 4)):
            self.assertIn("the inputs of a step have the shapes of the sample, which is one micro-batch",
                          said.pop("the sample itself"))
            self.assertIn("the sample's is (5, 2, 16), as long in the first dimension: say which one is cut (chunk_spec=)",
                          said.pop("ambiguous"))
            self.assertEqual(6, len(said))
            for name, found in said.items():
                self.assertLess(found, 1e-5, name)

    def test_autocast_around_the_step_alone_and_one_scale(self):
        for said in on_ranks(2, precision, self.plans()):
            self.assertIn("ranks have scales of the loss (call pipeline.unscale_ before scaler.step) that differ",
                          said["forgotten"])
            self.assertEqual([(mine, mine) for mine, _ in said["scales"]], said["scales"])
            self.assertEqual([1024, 2048, 2048, 1024, 1024, 2048], [scale for scale, _ in said["scales"]])
            self.assertLess(said["weights"], 1e-6)
            for name in ("1f1b", "zb-v", "interleaved"):
                self.assertLess(said[name], 1e-2, name)

    def test_blocks_are_compiled_where_they_run(self):
        found = on_ranks(2, compiled, self.plans(("1f1b", "zb-v")))
        for name in ("1f1b", "zb-v"):
            self.assertEqual(8, sum(said[name][1] for said in found))
            for said in found:
                self.assertLess(said[name][0], 1e-5)

    def test_a_run_goes_on_with_another_plan_on_other_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            wanted = sum(on_ranks(2, first_half, plan_of(CHAIN, "1f1b", 2, 4), folder), [])
            for ranks, schedule in ((2, "zb-v"), (4, "1f1b"), (1, "gpipe")):
                made = on_ranks(ranks, second_half, plan_of(CHAIN, schedule, ranks, 4), folder)
                for found, wrong, _, _ in made:
                    self.assertEqual([True, True], found)
                    self.assertIn("has no more.pt, so it is no checkpoint of pipeline.save", wrong[0])
                    self.assertIn("the state has no 0.0.weight, which the model has", wrong[1])
                    self.assertIn("0.0.bias has the shape (16, 16) in the state, and (16,) in the model", wrong[2])
                losses = sum((losses for _, _, losses, _ in made), [])
                self.assertEqual(len(wanted), len(losses))
                for mine, theirs in zip(losses, wanted):
                    self.assertAlmostEqual(mine, theirs, 5)
                self.assertEqual(sorted(pipeline_models.chain(8).state_dict()), made[0][3])


if __name__ == "__main__":
    unittest.main()
