"""Parts in order are the model: its result and its gradients, to the bit."""

import os
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
from torch import nn

import families
import models
from weir.capture.errors import WeirError
from weir.capture.parts import parts


def call(model, sample):
    return model(**sample) if isinstance(sample, dict) else model(sample)


def tensor_of(result):
    return result.logits if hasattr(result, "logits") else result


def gradients(model):
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def trained(make, run):
    """Result and gradients of one step, from the same seeds: `run(model, sample)` computes the result."""
    torch.manual_seed(7)
    model, sample = make()
    torch.manual_seed(8)
    result = tensor_of(run(model, sample))
    (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum().backward()
    return result.detach(), gradients(model), {name: buffer.clone() for name, buffer in model.named_buffers()}


def run_apart(make, **how):
    def run(model, sample):
        return parts(model, sample, **how).run(sample)
    return trained(make, run)


class Equal(unittest.TestCase):
    def assert_same(self, expected, got):
        self.assertTrue(torch.equal(expected[0], got[0]), "the results differ")
        for what in (1, 2):
            self.assertEqual(expected[what].keys(), got[what].keys())
            for name, value in expected[what].items():
                other = got[what][name]
                self.assertTrue(value is other or torch.equal(value, other), name)

    def model_of(self, name):
        if name in ("vgg16", "resnet50", "vit"):
            try:
                import torchvision  # noqa: F401
            except ImportError:
                self.skipTest("torchvision is not installed")
        if name in ("gpt2", "llama"):
            try:
                import transformers  # noqa: F401
            except ImportError:
                self.skipTest("transformers is not installed")
        return models.SEVEN[name]


class SevenModels(Equal):
    def check(self, name):
        make = self.model_of(name)
        expected = trained(make, call)
        for depth in (None, 1, 2, 3):
            with self.subTest(depth=depth):
                self.assert_same(expected, run_apart(make, depth=depth))

    def test_an_mlp_in_parts_is_itself(self):
        self.check("mlp")

    def test_vgg16_in_parts_is_itself(self):
        self.check("vgg16")

    def test_resnet50_in_parts_is_itself(self):
        self.check("resnet50")

    def test_a_vision_transformer_in_parts_is_itself(self):
        self.check("vit")

    def test_a_gpt_in_parts_is_itself(self):
        self.check("gpt")

    def test_gpt2_of_transformers_in_parts_is_itself(self):
        self.check("gpt2")

    def test_a_llama_of_transformers_in_parts_is_itself(self):
        self.check("llama")

    def test_names_of_parts_give_the_same_parts_again(self):
        for name in models.SEVEN:
            for depth in (None, 1, 2):
                with self.subTest(model=name, depth=depth):
                    model, sample = self.model_of(name)()
                    first = parts(model, sample, depth=depth)
                    again = parts(model, sample, split_at=[part.name for part in first])
                    shape = [(part.name, part.inputs, part.outputs, len(part.steps)) for part in first]
                    self.assertEqual(shape, [(part.name, part.inputs, part.outputs, len(part.steps)) for part in again])

    def test_stages_cut_from_each_other_have_the_models_gradients(self):
        for name in models.SEVEN:
            make = self.model_of(name)
            expected = trained(make, call)
            for size in (1, 2, 3):
                with self.subTest(model=name, layers_per_stage=size):
                    self.check_stages(make, size, expected)

    def check_stages(self, make, size, expected):
        torch.manual_seed(7)
        model, sample = make()
        whole = parts(model, sample)
        torch.manual_seed(8)
        stages = [whole.join(first, min(first + size, len(whole))) for first in range(0, len(whole), size)]
        values = dict(zip(whole.inputs, whole.tensors_of(sample)))
        runs = []
        for stage in stages:
            inputs = [values[value].detach().requires_grad_(values[value].requires_grad) for value in stage.inputs]
            outputs = stage(*inputs)
            values.update(zip(stage.outputs, outputs))
            runs.append((stage, inputs, outputs))
        result = tensor_of(whole.result_of(values))
        self.assertTrue(torch.equal(expected[0], result))
        (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum().backward()
        slopes = {value: tensor.grad for value, tensor in zip(runs[-1][0].inputs, runs[-1][1])}
        for stage, inputs, outputs in reversed(runs[:-1]):
            pairs = [(out, slopes[value]) for value, out in zip(stage.outputs, outputs)
                     if slopes.get(value) is not None]
            torch.autograd.backward([out for out, _ in pairs], [slope for _, slope in pairs])
            for value, tensor in zip(stage.inputs, inputs):
                if tensor.grad is not None:
                    slopes[value] = tensor.grad if value not in slopes else slopes[value] + tensor.grad
        for name, value in gradients(model).items():
            torch.testing.assert_close(value, expected[1][name], rtol=1e-5, atol=1e-6)


class Skip(nn.Module):
    """Each half of an hourglass hands its result across."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = torch.tanh(layer(x))
            kept.append(x)
        for layer in self.up:
            x = layer(x) * 0.5 + kept.pop()
        return x


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            noise = torch.randn(8)
            x = layer(x) + noise * 0.1
            x[:, 0] = 0
            x.mul_(2)
        return x


class Twice(nn.Module):
    """A module that runs three times, with what is counted in a buffer between its runs."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.act = nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU(inplace=True)
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x):
        x = self.first(x)
        for _ in range(3):
            x = self.act(self.again(x))
            self.runs += 1
        return {"out": x, "sizes": (x.shape[0], None)}


class Several(nn.Module):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x, scale=1.0):
            return {"left": self.left(x), "both": (self.right(x) * scale, x)}

    def __init__(self):
        super().__init__()
        self.pairs = nn.ModuleList(self.Pair() for _ in range(3))

    def forward(self, x, *, y):
        for pair in self.pairs:
            got = pair(x, scale=0.5)
            right, before = got["both"]
            with torch.no_grad():
                shift = before.mean()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                mixed = got["left"] @ right.t()
            x = torch.cat((got["left"], right), 1) + mixed.float().sum() * 0.01 + shift + y
        return x


class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, slope):
        return slope * 3  # no derivative of the above: a step that lost it would show


class OwnFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):
        return self.layers[1](Double.apply(self.layers[0](x)))


class Between(Equal):
    """What models compute between their modules belongs to parts as well."""

    def check(self, make, count):
        expected = trained(make, lambda model, sample: self.result(call(model, sample)))
        got = trained(make, lambda model, sample: self.result(parts(model, sample).run(sample)))
        self.assert_same(expected, got)
        self.assertEqual(count, len(parts(*make())))

    @staticmethod
    def result(result):
        return result["out"] if isinstance(result, dict) else result

    def test_skip_connections_are_edges(self):
        self.check(lambda: (Skip(), torch.randn(4, 8)), 6)
        edges = parts(Skip(), torch.randn(4, 8)).edges()
        self.assertEqual([(0, 1), (0, 5), (1, 2), (1, 4), (2, 3), (3, 4), (4, 5)], edges)

    def test_random_numbers_and_changes_in_place_run_again(self):
        self.check(lambda: (Noise(), torch.randn(4, 8)), 3)

    def test_constants_that_are_changed_in_place_are_made_anew(self):
        torch.manual_seed(3)
        model, sample = Sums(), torch.randn(4, 8)
        whole = parts(model, sample)
        for seed in (1, 2, 3):
            torch.manual_seed(seed)
            expected = model(sample)
            torch.manual_seed(seed)
            self.assertTrue(torch.equal(expected, whole.run(sample)))

    def test_what_a_hook_brings_out_of_a_block(self):
        torch.manual_seed(3)
        model, sample = Tells(), torch.randn(4, 8)
        whole = parts(model, sample)
        self.assertEqual(3, len(whole))
        for other in (sample, torch.randn(4, 8)):
            expected = torch.autograd.grad(model(other), model.parameters())
            got = torch.autograd.grad(whole.run(other), model.parameters())
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(expected, got)))

    def test_a_module_that_runs_again_is_a_part_again(self):
        self.check(lambda: (Twice(), torch.randn(4, 8)), 4)
        whole = parts(Twice(), torch.randn(4, 8))
        self.assertEqual(["first", "again", "again@2", "again@3"], [part.name for part in whole])
        self.assertEqual([(1, 2), (1, 3)], whole.tied())
        self.assertEqual((4, None), whole.run(torch.randn(4, 8))["sizes"])

    def test_functions_with_a_backward_of_their_own(self):
        self.check(lambda: (OwnFunction(), torch.randn(4, 8)), 2)

    def test_several_tensors_dictionaries_and_modes_of_autograd(self):
        self.check(lambda: (Several(), {"x": torch.randn(4, 8), "y": torch.randn(8)}), 3)

    def test_a_model_without_children_is_one_part(self):
        self.check(lambda: (nn.Linear(8, 8), torch.randn(4, 8)), 1)

    def test_taking_apart_leaves_buffers_and_random_numbers_alone(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
        buffers = [buffer.clone() for buffer in model.buffers()]
        state = torch.get_rng_state()
        parts(model, torch.randn(4, 8, generator=torch.Generator().manual_seed(1)))
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        for before, after in zip(buffers, model.buffers()):
            self.assertTrue(torch.equal(before, after))
        self.assertIs(nn.Module.__call__, nn.Module._wrapped_call_impl)

    def test_no_cut_stands_between_a_tensor_and_its_change_in_place(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 8))
        self.assertEqual([1], parts(model, torch.randn(4, 8), depth=1).no_cut_after())

    def test_rotary_embeddings_do_not_travel(self):
        try:
            import transformers  # noqa: F401
        except ImportError:
            self.skipTest("transformers is not installed")
        whole = parts(*models.llama())
        self.assertEqual([(place, place + 1) for place in range(len(whole) - 1)], whole.edges())


class Sums(nn.Module):
    """Adds up in a tensor of its own what its layers make, and draws into another one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        total, both = torch.zeros(8), torch.ones(2, 8)
        for layer in self.layers:
            x = layer(x)
            total += x.mean(0)
        both[0] = total
        both[1].mul_(torch.rand(8))
        return x * both.sum(0)


class Named(nn.Sequential):
    """A block, which is called as it is."""


class Tells(nn.Module):
    """Hands a list what a module within each block returns, by hooks, as transformers does with router logits."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Named(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)) for _ in range(3))
        self.told = []
        for block in self.blocks:
            block[1].register_forward_hook(lambda module, args, result: self.told.append(result))

    def forward(self, x):
        self.told.clear()
        for block in self.blocks:
            x = block(x)
        return x.square().mean() + sum(told.square().mean() for told in self.told)


class Families(unittest.TestCase):
    """Models of transformers, with the masks that their tokenizers make, equal themselves; also with another mask."""

    def check(self, mask, **config):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        transformers.logging.set_verbosity_error()
        for name in families.FAMILIES:
            if mask == "packed" and name in ("t5", "bart", "bloom"):  # which have no positions
                continue
            with self.subTest(name=name):
                model = families.family(name, **config)
                whole = parts(model, families.sample_of(name, mask=mask))
                for seed in (1, 2):
                    sample = families.sample_of(name, mask=mask, seed=seed)
                    model.zero_grad()
                    expected = model(**sample).loss
                    expected.backward()
                    theirs = gradients(model)
                    model.zero_grad()
                    loss = whole.run(sample).loss
                    loss.backward()
                    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
                    for key, gradient in gradients(model).items():
                        if gradient is not None:
                            torch.testing.assert_close(gradient, theirs[key], rtol=1e-4, atol=1e-6, msg=key)

    def test_masks_of_ones(self):
        self.check("ones")

    def test_padded(self):
        self.check("padded")

    def test_packed(self):
        self.check("packed")

    def test_packed_where_no_cache_hides_it(self):
        self.check("packed", use_cache=False)


class Refusals(unittest.TestCase):
    def refused(self, sentence, model, sample, **how):
        with self.assertRaises(WeirError) as caught:
            parts(model, sample, **how)
        self.assertIn(sentence, str(caught.exception))
        self.assertEqual(2, caught.exception.code)
        self.assertIs(nn.Module.__call__, nn.Module._wrapped_call_impl)

    def test_what_is_decided_by_data(self):
        class Decides(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

            def forward(self, x):
                x = self.layers[0](x)
                return self.layers[1](x) if x.sum() > 0 else x

        class Around(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.last = Decides(), nn.Linear(8, 8)

            def forward(self, x):
                return self.last(self.inner(x))

        self.refused("the model's own forward decides by the numbers in a tensor (Tensor.__bool__ in "
                     "test_capture_parts.py, line", Decides(), torch.randn(4, 8))
        self.refused("put these lines into an nn.Module of their own, which is run as it is, or leave this module whole "
                     "(depth=1)", Around(), torch.randn(4, 8))
        self.assertEqual(["inner", "last"], [part.name for part in parts(Around(), torch.randn(4, 8), depth=1)])

    def test_what_is_other_where_it_is_exported(self):
        class Exports(nn.Module):
            def __init__(self, factor):
                super().__init__()
                self.layers, self.factor = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)), factor

            def forward(self, x):
                x = self.layers[0](x)
                if torch.compiler.is_exporting():
                    return self.layers[1](x) * self.factor
                return self.layers[1](x) if x.sum() == x.sum() else x

        self.assertEqual(2, len(parts(Exports(1), torch.randn(4, 8))))
        self.refused("computes others where it is told that it is exported", Exports(2), torch.randn(4, 8))

    def test_a_view_of_what_is_changed_in_place(self):
        class Views(nn.Module):
            def __init__(self, through_view):
                super().__init__()
                self.layers, self.through_view = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)), through_view

            def forward(self, x):
                whole = torch.zeros(2, 8)
                view = whole[0]
                for layer in self.layers:
                    x = layer(x)
                changed, read = (view, whole) if self.through_view else (whole, view)
                changed += x.mean()
                return x + read.sum()

        for through_view in (False, True):
            self.refused("reads a view of a tensor that was changed in place after the view was made",
                         Views(through_view), torch.randn(4, 8))

    def test_a_sample_that_is_changed_in_place(self):
        self.refused("0 changes the model's input in place, so that a second run would not see the same data; give it "
                     "a copy (x.clone()), or set inplace=False",
                     nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8)), torch.randn(4, 8))

    def test_an_object_that_cannot_travel(self):
        class Box:
            pass

        class Takes(nn.Linear):
            def forward(self, x, box):
                box.seen = x
                return super().forward(x)

        class Hands(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(Takes(8, 8) for _ in range(2))

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x, Box())
                return x

        self.refused("layers.0 is handed an object of class Box", Hands(), torch.randn(4, 8))

    def test_a_tensor_from_nowhere(self):
        class Hides(nn.Linear):
            def forward(self, x):
                self.hidden = super().forward(x)
                return x

        class Uses(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([Hides(8, 8), nn.Linear(8, 8)])

            def forward(self, x):
                self.layers[0](x)
                return self.layers[1](self.layers[0].hidden)

        self.refused("layers.1 reads a tensor that no step and no parameter of the model has made", Uses(),
                     torch.randn(4, 8))

    def test_names_that_are_no_modules(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.refused("the model has no module 'two'", model, torch.randn(4, 8), split_at=["two"])
        self.refused("split_at is empty", model, torch.randn(4, 8), split_at=[])
        self.refused("depth is 0", model, torch.randn(4, 8), depth=0)
        self.refused("'1@2' does not run on this sample", model, torch.randn(4, 8), split_at=["1@2"])

    def test_samples_of_no_use(self):
        self.refused("sample is a str", nn.Linear(8, 8), "text")
        self.refused("sample holds no tensor", nn.Linear(8, 8), ())


if __name__ == "__main__":
    unittest.main()
