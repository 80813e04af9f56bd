"""Runs in PyTorch against their plans: a stage that was made slow is found, and its layers spread by the next plan."""

import glob
import json
import os
import sys
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
from torch.profiler import ProfilerActivity, profile

import pipeline_models
import weir
from plans import plan_of, profile_of
from ranks import on_ranks, run_script, setUpModule, tearDownModule  # noqa: F401
from weir.torch import pipeline

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
LAYERS = [str(layer) for layer in range(8)]
SLOW = "6"
SLEEP_S = 0.2  # in each forward: 50 times what was planned of a whole stage, which no busy machine comes near


class Sleeper(torch.nn.Module):
    """A layer that does nothing for a while first."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        time.sleep(SLEEP_S)
        return self.layer(x)


def traced(rank, plans):
    """Runs two iterations of each plan under PyTorch's profiler; a file per rank says what happened."""
    batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
    for name, plan in plans:
        model = pipeline_models.chain(8)
        model[int(SLOW)] = Sleeper(model[int(SLOW)])
        made = pipeline(model, plan, batch[:2], loss_fn=torch.nn.functional.mse_loss)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            for _ in range(2):
                made.step(batch, target=batch)
        seen.export_chrome_trace(f"{name}.rank{rank}.json.gz")


class Compare(unittest.TestCase):
    def test_a_slow_stage_comes_first_and_is_spread_by_the_next_plan(self):
        plans = [(name, plan_of(LAYERS, name, 2, 4)) for name in ("1f1b", "zb-v")]
        on_ranks(2, traced, plans)
        measured = weir.Profile.from_json(profile_of(LAYERS))
        for name, document in plans:
            with self.subTest(name):
                plan = weir.Plan.from_json(json.dumps(document))
                slow = next(stage for stage in document["stages"] if SLOW in stage["layers"])
                files = glob.glob(f"{name}.rank*.json.gz")
                self.assertEqual(2, len(files))
                found = weir.compare(plan, files)
                self.assertEqual(("stage", slow["stage"]), (found.causes[0]["cause"], found.causes[0]["stage"]))
                self.assertGreaterEqual(found.document["measured"]["iteration_ns"], 4 * SLEEP_S * 1e9)
                self.assertIn("iteration 1 of 0 to 1", found.text())
                forward = next(row for row in found.document["actions"]
                               if (row["stage"], row["kind"]) == (slow["stage"], "F"))
                self.assertEqual(4, forward["count"])
                self.assertGreaterEqual(forward["measured_ns"], SLEEP_S * 1e9)

                refined = measured.refine(plan, files)
                again = weir.partition(refined, "2 devices, 16GiB, 12GB/s 5us", schedule=name, micro_batches=4)
                for stage in again.document["stages"]:  # no stage has all of the slow one's layers
                    self.assertFalse(set(slow["layers"]) <= set(stage["layers"]), stage["layers"])


class Example(unittest.TestCase):
    def test_a_run_is_traced_compared_and_planned_anew(self):
        said = "".join(run_script(2, ".", os.path.join(ROOT, "examples", "compare_torch.py")))
        self.assertRegex(said, r"1f1b: 2 ranks, 2 stages, 4 micro-batches, iteration 2 of 0 to 2")
        self.assertRegex(said, r"what explains the difference, each cause by itself")
        self.assertRegex(said, r"planned anew: <weir.Plan: .* in 2 stages by 1f1b")


if __name__ == "__main__":
    unittest.main()
