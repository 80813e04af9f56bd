"""Profiles of real models: documents that `weir` reads and plans with, and models that are left as they were."""

import gc
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))

import torch
from torch import nn

from capturing import document, made, square
from weir.capture import dispatch
from weir.capture.errors import WeirError
from weir.capture.profiling import profile

torch.set_num_threads(1)


def weir():
    """The command, if it is built or installed."""
    build = os.environ.get("WEIR_BUILD", os.path.join(HERE, "..", "..", "..", "build", "release"))
    command = os.path.join(build, "bin", "weir")
    command = command if os.path.exists(command) else shutil.which("weir")
    if command is None:
        raise unittest.SkipTest("the command weir is not built")
    return command


def run_weir(document, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        arguments = [path if argument == "PROFILE" else argument for argument in arguments]
        return subprocess.run([weir(), *arguments], capture_output=True, text=True, check=False)


class FirstToken(nn.Module):
    """A pooler, which hands a view of its input to a module within."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(16, 16)

    def forward(self, x):
        return self.dense(x[:, 0])


class Progress(unittest.TestCase):
    def test_lines_say_what_is_done(self):
        said = []
        document(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.randn(2, 8), repeats=3, progress=said.append)
        self.assertEqual(["taking the model apart", "counting the bytes of 2 layers", "warming up"], said[:3])
        self.assertEqual("3 of 3 repeats", said[-1])

    def test_a_freeze_of_the_callers_stays(self):
        gc.freeze()
        try:
            frozen = gc.get_freeze_count()
            with torch.device("meta"):
                hollow = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            for model in (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), hollow):
                document(model, torch.ones(2, 4), repeats=1)
                self.assertEqual(gc.get_freeze_count(), frozen)
        finally:
            gc.unfreeze()

    def test_a_layer_at_a_time_is_said(self):
        said = []
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        document(model, torch.randn(2, 8), progress=said.append)
        self.assertEqual(["taking the model apart", "measuring 0, layer 1 of 2"], said[:2])


class Views(unittest.TestCase):
    def test_a_view_handed_to_a_module_within_a_layer(self):
        model = nn.Sequential(nn.Linear(16, 16), FirstToken(), nn.Linear(16, 4))
        found = document(model, torch.randn(2, 5, 16))
        self.assertEqual(2 * 2 * 16 * 16, found["layers"][1]["flops"])


class Documents(unittest.TestCase):
    """The command reads what is written, and plans with it."""

    def check(self, name):
        weir()
        found = document(*made(name), name=name)
        linted = run_weir(found, "profile", "--lint", "PROFILE")
        self.assertIn(linted.returncode, (0, 1), linted.stderr)  # 1: times of such small models may not add up
        for sentence in ("changed by hand", "0 bytes", "feeds no other", "keeps neither"):
            self.assertNotIn(sentence, linted.stdout)
        cluster = "2 devices, 16GiB, 12GB/s 5us"
        planned = run_weir(found, "partition", "PROFILE", "--cluster", cluster, "--schedule", "1f1b",
                           "--micro-batches", "4", "--tied", "apart")
        self.assertEqual(0, planned.returncode, planned.stderr)
        self.assertEqual("measured", found["source"]["backward_split"])
        for layer in found["layers"]:
            self.assertGreater(layer["forward_ns"], 0)
            self.assertGreater(layer["backward_ns"], 0)
            self.assertGreater(layer["recompute_ns"], 0)
        self.assertEqual(0, found["layers"][0]["backward_input_ns"])
        for layer in found["layers"][1:]:
            self.assertGreater(layer["backward_input_ns"], 0)
            self.assertGreater(layer["backward_weight_ns"], 0)
        return found

    def test_an_mlp(self):
        self.assertNotIn("edges", self.check("mlp"))  # as documents have a chain

    def test_vgg16(self):
        self.check("vgg16")

    def test_resnet50(self):
        self.check("resnet50")

    def test_a_vision_transformer(self):
        self.check("vit")

    def test_a_gpt(self):
        found = self.check("gpt")
        self.assertEqual([[0, 5]], found["tied"])
        self.assertEqual([[0, 5]], found["one_owner"])
        self.assertEqual(0, found["layers"][5]["parameter_bytes"])

    def test_gpt2_of_transformers(self):
        self.assertEqual([[0, 6]], self.check("gpt2")["tied"])

    def test_a_llama_of_transformers(self):
        self.check("llama")

    def test_every_parameter_is_counted_once(self):
        model, sample = made("gpt")  # in which two layers share their words, and one has parameters of its own
        expected = sum((p.numel() * p.element_size() + 255) // 256 * 256 for p in model.parameters())
        self.assertEqual(expected, sum(layer["parameter_bytes"] for layer in document(model, sample)["layers"]))

    def test_a_skip_connection_is_an_edge_and_says_what_it_takes(self):
        class Cross(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

            def forward(self, x):
                first = self.layers[0](x)
                small = first[:, :16] * 2
                return self.layers[2](self.layers[1](first)) + small.sum()

        found = document(Cross(), torch.randn(4, 64))
        self.assertEqual([[0, 1], [0, 2], [1, 2]], found["edges"])
        self.assertEqual([[1, 1024], [2, 256]], found["layers"][0]["sends"])
        self.assertEqual(1280, found["layers"][0]["output_bytes"])
        self.assertIn("several tensors", found["notes"])
        self.assertEqual(0, run_weir(found, "profile", "--lint", "PROFILE").returncode & 2)

    def test_a_list_of_modules_and_names(self):
        found = document([nn.Linear(8, 8), nn.Linear(8, 2)], torch.randn(4, 8), repeats=3, name="two")
        self.assertEqual(("two", 4, "fp32"), (found["model"], found["micro_batch"], found["dtype"]))
        self.assertEqual(["0", "1"], [layer["name"] for layer in found["layers"]])
        self.assertEqual([[8, 8], [8, 1]], found["layers"][0]["shapes"])
        self.assertEqual(2 * 4 * 8 * 8, found["layers"][0]["flops"])
        self.assertEqual(3, found["source"]["repeats"])

    def test_a_model_that_returns_its_loss(self):
        model, sample = made("gpt2")
        found = document(model, {**sample, "labels": sample["input_ids"]}, None)
        self.assertEqual(7, len(found["layers"]))


class Dispatch(unittest.TestCase):
    """What PyTorch's runtime takes for an action."""

    def test_it_is_measured_over_gloo(self):
        if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
            self.skipTest("this PyTorch has no gloo")
        self.assertGreater(dispatch.measure_dispatch(repeats=2), 0)

    def test_two_ranks_agree_on_an_order(self):
        for rank in range(2):
            order = dispatch.one_f_one_b(rank)
            for kind in "FB":
                self.assertEqual([f"{rank}{kind}{m}" for m in range(8)], [one for one in order if one[1] == kind])
            for m in range(8):
                self.assertLess(order.index(f"{rank}F{m}"), order.index(f"{rank}B{m}"))

    def test_a_process_that_fails_is_said(self):
        with mock.patch.object(dispatch.sys, "executable", "/bin/false"), self.assertRaises(WeirError) as caught:
            dispatch.measure_dispatch(repeats=1)
        self.assertIn("could not be timed over gloo (no output); leave stages out", str(caught.exception))
        self.assertEqual(3, caught.exception.code)

    def test_layers_share_it(self):
        model, sample = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))), torch.randn(4, 8)
        second = 10**9  # no layer takes that long
        with mock.patch("weir.capture.profiling.measure_dispatch", return_value=second):
            found = document(model, sample, stages=2)
        for layer in found["layers"]:
            for phase in ("forward", "backward", "backward_weight"):
                self.assertEqual(1, round(layer[f"{phase}_ns"] / (second / 2)))
                self.assertEqual(layer[f"{phase}_ns"], layer["spread"][phase][1])
            self.assertLess(layer["recompute_ns"], second / 2)
        self.assertEqual(0, found["layers"][0]["backward_input_ns"])
        self.assertEqual(4, round(found["source"]["sum_ns"] / second))
        self.assertEqual(4, round(found["source"]["whole_ns"] / second))
        self.assertIn("takes 1000000000 ns for an action", found["notes"])


class LeftAlone(unittest.TestCase):
    def test_a_model_is_what_it_was(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 8))
        model[0].weight.grad = torch.ones(8, 8)
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        sample, random = torch.randn(4, 8), torch.get_rng_state()
        document(model, sample)
        self.assertTrue(torch.equal(random, torch.get_rng_state()))
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(state[name], tensor), name)
        self.assertTrue(torch.equal(torch.ones(8, 8), model[0].weight.grad))
        self.assertIsNone(model[3].weight.grad)

    def test_compiled_blocks_are_measured_compiled(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 8))
        calls = []

        def backend(graph, inputs):
            calls.append(graph)
            return graph.forward

        model[1] = torch.compile(model[1], backend=backend)
        found = document(model, torch.randn(4, 8))
        self.assertEqual(["Linear", "Sequential", "Linear"], [layer["kind"] for layer in found["layers"]])
        self.assertGreater(len(calls), 0)

    def test_parts_that_train_nothing(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
        for parameter in model[0].parameters():
            parameter.requires_grad = False
        layers = document(model, torch.randn(4, 8))["layers"]
        self.assertEqual([0, 0, 0], [layers[0][f"backward{half}_ns"] for half in ("", "_input", "_weight")])
        self.assertEqual(0, layers[1]["backward_input_ns"])
        self.assertGreater(layers[2]["backward_input_ns"], 0)


class Refusals(unittest.TestCase):
    def refused(self, sentence, *arguments, **how):
        with self.assertRaises(WeirError) as caught:
            profile(*arguments, **how)
        self.assertIn(sentence, str(caught.exception))
        self.assertEqual(2, caught.exception.code)

    def setUp(self):
        self.model, self.sample = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.randn(4, 8)

    def test_no_loss(self):
        self.refused("the model returns a tensor of shape (4, 8), and no loss; hand loss_fn=...", self.model,
                     self.sample)
        self.refused("loss_fn returns nothing, and no loss", self.model, self.sample, lambda result: None)

    def test_no_parameters(self):
        self.refused("the model has no parameters that need gradients", nn.Sequential(nn.ReLU()), self.sample, square)
        self.model.requires_grad_(False)
        self.refused("the model has no parameters that need gradients", self.model, self.sample, square)

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_a_gpu_that_is_not_there(self):
        self.refused("device is 'cuda', but PyTorch finds no GPU here", self.model, self.sample, square, device="cuda")

    def test_devices_clocks_and_repeats_that_are_none(self):
        self.refused("device is 'fast', and must be one of PyTorch's", self.model, self.sample, square, device="fast")
        self.refused("device is 'meta'; times are taken on", self.model, self.sample, square, device="meta")
        self.refused("clock is 'sun'", self.model, self.sample, square, clock="sun")
        self.refused("stages is 3, and must be a whole number from 1 to 2", self.model, self.sample, square, stages=3)
        self.refused("repeats is 0", self.model, self.sample, square, repeats=0)

    def test_models_that_are_none(self):
        self.refused("model is a str, and must be a torch.nn.Module", "resnet", self.sample)
        self.refused("the model is compiled as a whole", torch.compile(self.model, backend="eager"), self.sample,
                     square)


if __name__ == "__main__":
    unittest.main()
