"""Every schedule that PyTorch can express runs in its runtime with the gradients of the whole model."""

import os
import re
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch

import pipeline_models
import weir
from plans import plan_of
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.torch import pipeline, verify
from weir.torch.pipes import cut_pipes

RUN = {  # and the class of PyTorch that has this order, or None: then the CSV runtime runs it
    "gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B",
    "looped-bfs": "ScheduleLoopedBFS", "zb-h1": None, "zb-h2": None,
    "interleaved-zb": "ScheduleInterleavedZeroBubble", "zb-v": "ScheduleZBVZeroBubble", "v-half": None, "v-min": None,
    "dualpipev": "ScheduleDualPipeV", "hanayo": None}
REFUSED = {
    "pipedream": "pipedream updates weights between micro-batches (weights stash), and PyTorch's runtime has one "
                 "version of them: plan with a schedule that flushes, such as 1f1b",
    "vertical": "vertical updates weights between micro-batches (weights vertical), and PyTorch's runtime has one "
                "version of them: plan with a schedule that flushes, such as 1f1b",
    "pipedream-2bw": "pipedream-2bw updates weights between micro-batches (weights 2bw), and PyTorch's runtime has one "
                     "version of them: plan with a schedule that flushes, such as 1f1b",
    "chimera": "chimera has two copies of each stage on the same ranks, and PyTorch's runtime has one of each: plan "
               "with zb-v or dualpipev",
    "dualpipe": "dualpipe has two copies of each stage on the same ranks, and PyTorch's runtime has one of each: plan "
                "with zb-v or dualpipev",
    "seq1f1b": "seq1f1b splits its sequences, which PyTorch's runtime cannot: plan with 1f1b",
    "tables-ahead": "tables-ahead has messages from a rank to itself, which PyTorch's runtime has not: plan with 1f1b"}
REFUSED_BECAUSE = {  # what the page says, and the sentence
    "refused: PyTorch's runtime has one version of the weights": "PyTorch's runtime has one version of them",
    "refused: it has one copy of each stage": "PyTorch's runtime has one of each",
    "refused: it does not split sequences": "splits its sequences, which PyTorch's runtime cannot",
    "refused: it has no messages from a rank to itself": "has messages from a rank to itself, which PyTorch's runtime has"}
README = os.path.join(os.path.dirname(os.path.abspath(weir.__file__)), "torch", "README.md")
LAYERS = [str(layer) for layer in range(8)]
SEARCHED_COSTS = "100us,130us,70us,2us"


def batch(seed):
    return torch.randn(16, 16, generator=torch.Generator().manual_seed(seed))


def mean_square(output, target):
    return ((output - target) ** 2).mean()


def verified(rank, plans):
    found = {}
    for name, plan, schedule in plans:
        done = verify(pipeline_models.chain(8), plan, batch(1), batch(2), mean_square, schedule=schedule)
        made = pipeline(pipeline_models.chain(8), plan, batch(1)[:1], loss_fn=mean_square, schedule=schedule)
        found[name] = done.equal, done.gradients.relative, done.compared, type(made._base.runtime).__name__
    return found


def forwarded(rank, plan):
    model = pipeline_models.chain(8)
    whole = model(batch(1))
    made = pipeline(model, plan).step(batch(1))
    return None if made is None else torch.equal(made, whole)


class Schedules(unittest.TestCase):
    def check(self, ranks, micro_batches):
        plans = [(name, plan_of(LAYERS, name, ranks, micro_batches), None) for name in RUN]
        order = weir.search(ranks=ranks, micro_batches=micro_batches, cost=SEARCHED_COSTS)
        plans.append(("search", plan_of(LAYERS, "zb-h1", ranks, micro_batches), order.json()))
        for found in on_ranks(ranks, verified, plans):
            for name, own in {**RUN, "search": None}.items():
                equal, relative, compared, runtime = found[name]
                self.assertEqual(16, compared, name)
                self.assertEqual(own or "_PipelineScheduleRuntime", runtime, name)
                if name == "looped-bfs":  # the last micro-batch's backward is the first: another order of addition
                    self.assertLess(relative, 1e-6, name)
                else:
                    self.assertTrue(equal, f"{name}: {relative}")

    def test_two_ranks_have_the_gradients_of_the_whole_model(self):
        self.check(2, 8)

    def test_four_ranks_have_the_gradients_of_the_whole_model(self):
        self.check(4, 8)

    def test_fewer_micro_batches_than_ranks_run_too(self):
        plans = [(name, plan_of(LAYERS, name, 4, 2), None) for name in ("1f1b", "zb-h1")]
        for found in on_ranks(4, verified, plans):
            self.assertTrue(all(equal for equal, _, _, _ in found.values()), found)

    def test_inference_returns_what_the_model_does(self):
        self.assertEqual([None, True], on_ranks(2, forwarded, plan_of(LAYERS, "forward-only", 2, 4)))

    def test_all_others_are_refused_with_the_reason(self):
        for name, sentence in REFUSED.items():
            with self.assertRaises(weir.WeirError) as refused:
                ranks = 1 if name == "tables-ahead" else 2
                two = plan_of(LAYERS, "1f1b", 2, 4) if ranks == 2 else plan_of(LAYERS, "interleaved", 1, 4)
                order = weir.schedule(name, ranks=ranks, micro_batches=4)
                cut_pipes(weir.Plan.from_json(weir.torch.pipelines.as_plan(two).json()), order)
            self.assertEqual((sentence, 2), (str(refused.exception), refused.exception.code), name)

    def test_a_module_in_place_of_the_plan_is_refused(self):
        with self.assertRaisesRegex(weir.WeirError, "a Linear is no plan: pipeline\\(model, plan, "):
            weir.torch.pipelines.as_plan(torch.nn.Linear(2, 2))

    def test_every_schedule_is_either_run_or_refused(self):
        with self.assertRaises(weir.WeirError) as listed:
            weir.schedule("no such", ranks=2, micro_batches=4)
        names = re.search(r"\(there are (.*)\)", str(listed.exception))[1].split(", ")
        self.assertEqual(sorted(names), sorted([*RUN, *REFUSED, "forward-only"]))

    def test_the_page_says_which_and_why_not(self):
        with open(README, encoding="utf-8") as file:
            section = file.read().split("## Which schedules")[1].split("\n## ")[0]
        rows = dict(re.findall(r"^\| ([a-z][^|]*) \| (.*) \|$", section, re.M))
        rows.pop("schedule")
        said = {name: what for names, what in rows.items() for name in names.split(";")[0].split(", ")}
        self.assertEqual(sorted([*RUN, *REFUSED, "forward-only", "searched orders"]), sorted(said))
        for name, what in said.items():
            wanted = ("refused: " if name in REFUSED else "PyTorch's class" if RUN.get(name) else
                      "`_ScheduleForwardOnly`" if name == "forward-only" else "the CSV runtime")
            self.assertTrue(what.startswith(wanted), (name, what))
            if name in REFUSED:
                self.assertIn(REFUSED_BECAUSE[what], REFUSED[name])


if __name__ == "__main__":
    unittest.main()
