"""Stages of models that are no plain chains: skips, ties, running means, recomputation, replicas; and refusals."""

import copy
import json
import os
import sys
import unittest
from unittest import mock

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

import pipeline_models
import weir
from plans import plan_of, profile_of, recomputed
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.torch import links, pipeline, verify
from weir.torch.link_rates import fit_line, synopsis
from weir.torch.pipelines import device_of
from weir.torch.pipes import cut_pipes

CHAIN = [str(layer) for layer in range(8)]


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def words(*shape):
    return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(5))


def mean_square(output, target):
    return ((output - target) ** 2).mean()


def word_loss(output, target):
    return torch.nn.functional.cross_entropy(output["logits"].flatten(0, 1), target.flatten())


def cases():
    """By name: a model, an iteration's inputs and targets, a loss, the layers of its profile."""
    layers = [f"layers.{layer}" for layer in range(6)]
    return {
        "skips": (pipeline_models.Skips(), random(16, 16), random(16, 16) + 1, mean_square, ["first", *layers, "last"]),
        "tied": (pipeline_models.Tied(), (words(16, 5), random(16, 5, 1)), words(16, 5), word_loss,
                 ["embedding", *layers[:4], "late", "head"]),
        "named": (pipeline_models.Tied(), {"ids": words(16, 5), "scale": random(16, 5, 1)}, words(16, 5), word_loss,
                  ["embedding", *layers[:4], "late", "head"]),
        "shared": (pipeline_models.Shared(), random(16, 16), random(16, 16) + 1, mean_square,
                   [*layers[:4], "layers.0@2"]),
        "normed": (pipeline_models.Normed(), random(16, 4, 8, 8), words(16) % 3, torch.nn.functional.cross_entropy,
                   [*layers, "head"])}


def verified(rank, runs, steps):
    found = []
    for case, plan, schedule in runs:
        model, inputs, target, loss, _ = cases()[case]
        done = verify(model, plan, inputs, target, loss, steps=steps, schedule=schedule)
        found.append((done.equal, done.within(1e-5), str(done)))
    return found


def frozen_first(layers):
    """A chain of which so many of the first layers learn nothing."""
    model = pipeline_models.chain(8)
    for parameter in model[:layers].parameters():
        parameter.requires_grad_(False)
    return model


def behind_frozen(rank, plans):
    return {name: [(done.equal, str(done)) for layers in (1, 2, 3, 4, 7)
                   for done in [verify(frozen_first(layers), plan, random(16, 16), random(16, 16) + 1, mean_square,
                                       steps=2)]]
            for name, plan in plans.items()}


def forward_calls(rank, plan):
    """How often each layer of this rank runs forward in a step."""
    model = pipeline_models.chain(8)
    made = pipeline(model, plan, random(4, 16), loss_fn=mean_square)
    calls = {}
    for name, layer in model.named_children():
        layer[0].register_forward_hook(lambda *_, name=name: calls.__setitem__(name, calls.get(name, 0) + 1))
    made.step(random(16, 16), target=random(16, 16))
    return calls


def crossing(rank, plan):
    """What each cut of the model with skips lets through, by number of tensors."""
    made = pipeline(pipeline_models.Skips(), plan, random(2, 16), loss_fn=mean_square)
    return [len(returned) for _, returned in made._base.metas.values()]


def replicated(rank, plan, order):
    model = pipeline_models.chain(8)
    done = verify(model, plan, random(16, 16), random(16, 16) + 1, mean_square, steps=2, schedule=order)
    added = pipeline(copy.deepcopy(model), plan, random(2, 16), loss_fn=lambda o, t: ((o - t) ** 2).sum() / 256,
                     schedule=order, average=False)
    added.step(random(16, 16), target=random(16, 16) + 1)
    ((model(random(16, 16)) - random(16, 16) - 1) ** 2).mean().backward()
    wanted = dict(model.named_parameters())
    far = max((ours.grad - wanted[name].grad).abs().max().item() for name, ours in added.named_parameters())
    return str(done), done.within(1e-5), done.compared, added.micro_batches, far


def traced(rank, plans):
    """The names of all actions in a profiler's trace of a step."""
    seen = []
    for plan in plans:
        made = pipeline(pipeline_models.chain(8), plan, random(4, 16), loss_fn=mean_square)
        with profile(activities=[ProfilerActivity.CPU]) as trace:
            made.step(random(16, 16), target=random(16, 16))
        names = {event.name.removeprefix("PP:") for event in trace.events() if event.name.startswith("PP:")}
        seen.append(sorted(name for name in names if name[1] in "FB"))
    return seen


def refusals(rank, plan, split, late):
    """Sentences of what cannot be done, in turn."""
    model, said = pipeline_models.chain(8), []

    def refused(what):
        try:
            what()
            said.append("done")
        except weir.WeirError as error:
            said.append(f"{error.code}: {error}")

    made = pipeline(model, plan, loss_fn=mean_square)
    refused(made.parameters)
    refused(lambda: pipeline(model, plan, random(4, 16)).step(random(16, 16)))
    refused(lambda: made.step(random(15, 16), target=random(15, 16)))
    made.step(random(16, 16), target=random(16, 16))
    refused(lambda: made.step(*[random(16, 16)] * rank, target=random(16, 16)))
    refused(lambda: made.step(random(16, 16), target=random(16, 16) if rank == 0 else None))
    refused(lambda: made.step(random((16, 32)[rank], 16), target=random(32, 16)))
    refused(lambda: made.step(random(32, 16), target=random(32, 16)))
    refused(lambda: pipeline(model, plan, schedule=weir.schedule("1f1b", ranks=1, micro_batches=4)))
    refused(lambda: pipeline(model, late, random(4, 16)))
    refused(lambda: pipeline(pipeline_models.chain(7), plan, random(4, 16)))
    refused(lambda: verify(model, plan, random(16, 16)))
    refused(lambda: pipeline(model, split if rank == 1 else plan, random(4, 16), loss_fn=mean_square))
    mine = weir.schedule(("1f1b", "gpipe")[rank], ranks=2, micro_batches=4)
    refused(lambda: pipeline(model, plan, random(4, 16), loss_fn=mean_square, schedule=mine))
    return said


class Stages(unittest.TestCase):
    def test_all_that_is_no_chain_trains_like_the_whole_model(self):
        runs = []
        for case, (_, _, _, _, layers) in cases().items():
            for schedule in ("1f1b", "interleaved", "zb-v"):
                plan = plan_of(layers, schedule, 2, 4)
                runs += [(case, plan, None), (case, recomputed(copy.deepcopy(plan)), None)]
        for found in on_ranks(2, verified, runs, 2):
            for (case, plan, _), (equal, close, said) in zip(runs, found):
                if case in ("tied", "named", "shared"):  # the copies' sums are added up, not one after the other
                    self.assertTrue(close, (case, plan["schedule"]["name"], said))
                else:
                    self.assertTrue(equal, (case, plan["schedule"]["name"], said))

    def test_stages_behind_frozen_ones_split_their_backward(self):
        names = ("zb-v", "zb-h1", "interleaved-zb", "dualpipev", "v-half")
        plans = {name: plan_of(CHAIN, name, 2, 4) for name in names}
        plans["recomputed"] = recomputed(plan_of(CHAIN, "zb-v", 2, 4))
        for found in on_ranks(2, behind_frozen, plans):
            for name, each in found.items():
                for equal, said in each:
                    self.assertTrue(equal, (name, said))

    def test_a_skip_is_handed_on_once_by_each_stage_between(self):
        plan = plan_of(cases()["skips"][4], "1f1b", 4, 8)
        # Behind stage 0: the first layer's output, which the last one reads again, the latest value, and the input.
        counts = [of_rank[number] for number, of_rank in enumerate(on_ranks(4, crossing, plan))]
        self.assertEqual([3, 3, 3, 1], counts)

    def test_planned_segments_and_no_others_run_again(self):
        plan = recomputed(plan_of(CHAIN, "1f1b", 2, 4), [["1", "2"], ["5"]])
        self.assertEqual([{"0": 4, "1": 8, "2": 8, "3": 4}, {"4": 4, "5": 8, "6": 4, "7": 4}],
                         on_ranks(2, forward_calls, plan))

    def test_replicas_are_averaged_or_added_up(self):
        plan = plan_of(CHAIN, "1f1b", 2, 8)
        order = weir.schedule("1f1b", ranks=4, micro_batches=8, replicas=[2, 2]).json()
        for rank, (said, close, compared, micro_batches, far) in enumerate(on_ranks(4, replicated, plan, order)):
            self.assertTrue(close, said)
            self.assertEqual(16, compared)
            self.assertEqual(((0, 2, 4, 6), (1, 3, 5, 7))[rank % 2], micro_batches)
            self.assertLess(far, 1e-6)

    def test_every_action_is_named_in_a_trace(self):
        plans = [plan_of(CHAIN, name, 2, 4) for name in ("1f1b", "hanayo")]
        for rank, (one, wave) in enumerate(on_ranks(2, traced, plans)):
            self.assertEqual(sorted(f"{rank}{kind}{number}" for kind in "FB" for number in range(4)), one)
            self.assertEqual(16, len(wave))

    def test_what_cannot_be_is_said_on_every_rank(self):
        split = plan_of(CHAIN, "zb-h1", 2, 4)
        said, other = on_ranks(2, refusals, plan_of(CHAIN, "1f1b", 2, 4), split, plan_of(CHAIN[1:], "1f1b", 2, 4))
        self.assertEqual(said, other)
        for line, wanted in zip(said, [
                "2: this model's stages are known after its first step: give pipeline a sample",
                "2: the model returns a tensor of shape (4, 16), and no loss; hand loss_fn=",
                "2: the inputs of a step have a tensor of shape (15, 16), whose dimension 0 does not go into the plan's "
                "4 micro-batches: give a multiple of 4",
                "2: rank 0 has the model's first stage, and step was given no inputs there",
                "2: rank 1 has the model's last stage, and loss_fn needs a target, which step was not given there",
                "2: ranks have inputs of shapes that differ, and every rank needs the same",
                "done",
                "2: the schedule 1f1b has 1 stages, and the plan 2",
                "2: the plan has no layer 0.0, which the model has: profile and plan this very model",
                "2: split_at: the model has no module '7'",
                "2: the model returns a tensor of shape (4, 16), and no loss; hand loss_fn=",
                "2: rank 1 has another plan than rank 0, and all need the same",
                "2: rank 1 has another schedule than rank 0, and all need the same"]):
            self.assertIn(wanted, line, said)
        self.assertEqual(13, len(said))

    def test_unequal_replicas_are_refused(self):
        plan = weir.Plan.from_json(json.dumps(plan_of(CHAIN, "1f1b", 2, 6)))
        for replicas, sentence in (([3, 1], "the stages have 3, 1 replicas, and PyTorch's runtime needs as many of "
                                             "each: plan with replicas=[1, 1]"),
                                   ([2, 2], "5 micro-batches do not go evenly into 2 replicas")):
            with self.assertRaises(weir.WeirError) as refused:
                cut_pipes(plan, weir.schedule("1f1b", ranks=4, micro_batches=6 if 3 in replicas else 5,
                                              replicas=replicas))
            self.assertIn(sentence, str(refused.exception))

    def test_devices_that_are_not_here_are_refused(self):
        for device, sentence in (("fast", "device is 'fast', and must be one of PyTorch's"),
                                 ("cuda", "device is 'cuda', but PyTorch finds no GPU here")):
            with self.assertRaises(weir.WeirError) as refused, mock.patch("torch.cuda.is_available", lambda: False):
                device_of(device, None)
            self.assertIn(sentence, str(refused.exception))

    def test_without_processes_there_is_a_sentence(self):
        with self.assertRaises(weir.WeirError) as refused:
            pipeline(pipeline_models.chain(8), plan_of(CHAIN, "1f1b", 2, 4))
        self.assertIn("start the ranks by torchrun", str(refused.exception))


class Links(unittest.TestCase):
    def test_a_line_is_fitted_exactly_where_there_is_one(self):
        sizes = [1024, 4096, 1 << 20]
        latency, per_byte = fit_line(sizes, [2e-5 + size / 3e9 for size in sizes])
        self.assertAlmostEqual(2e-5, latency, 12)
        self.assertAlmostEqual(3e9, 1 / per_byte, -3)

    def test_times_below_zero_are_no_answer(self):
        self.assertEqual(0, fit_line([1000, 2000], [1e-6, 3e-6])[0])
        self.assertGreater(fit_line([1000, 2000], [3e-6, 3e-6 - 1e-9])[1], 0)

    def test_the_answer_is_a_cluster_that_a_plan_takes(self):
        self.assertEqual("2 devices, 512MiB, 3000MB/s 20000ns", synopsis(2, 512 << 20, 2e-5, 1 / 3e9))
        first, *others = on_ranks(3, measured)
        self.assertEqual([first, first], others)
        self.assertTrue(first.startswith("3 devices, 4GiB, "), first)
        profile = weir.Profile.from_json(profile_of(CHAIN))
        self.assertEqual(3, len(weir.partition(profile, first, schedule="1f1b", micro_batches=6).document["stages"]))

def measured(rank):
    return links("4GiB", repeats=3)


if __name__ == "__main__":
    unittest.main()
