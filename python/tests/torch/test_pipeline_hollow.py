"""Models on the meta device: each rank makes its own stages, and no rank could hold them all."""

import ctypes
import gc
import os
import resource
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
from torch import nn

import families
import pipeline_models
import weir
from plans import plan_of
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.capture.hollow import fill_buffers
from weir.torch import pipeline

WIDTH, BLOCKS = 4096, 16  # 64 MiB for each of 4 matrices of a block: 4 GiB of fp32
LARGE = [str(block) for block in range(BLOCKS)]
LIMIT = 3 << 30


class Block(nn.Module):
    def __init__(self, number, width=WIDTH):
        super().__init__()
        self.number = number
        self.first, self.second, self.third, self.fourth = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        for layer in (self.first, self.second, self.third, self.fourth):
            x = torch.tanh(layer(x))
        return x


def begin(module):
    """The values of a block, on whatever rank."""
    for parameter in module.parameters(recurse=False):
        parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())) * 0.02)


def mean_square(output, target):
    return ((output - target) ** 2).mean()


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def allocated():
    """Bytes of this process that RLIMIT_DATA counts."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData"))


def large_step(rank, plan):
    """One step under the limit; of each gradient a sum and a corner."""
    resource.setrlimit(resource.RLIMIT_DATA, (allocated() + LIMIT, resource.RLIM_INFINITY))
    with torch.device("meta"):
        model = nn.Sequential(*(Block(number) for number in range(BLOCKS)))
    pipe = pipeline(model, plan, random(4, WIDTH), loss_fn=mean_square, init_fn=begin)
    pipe.step(random(16, WIDTH), target=random(16, WIDTH))
    return {name: (parameter.grad.double().sum().item(), parameter.grad[:4, :4].clone().tolist())
            for name, parameter in pipe.named_parameters()}


def one_block_at_a_time():
    """The gradients of the same, from inputs that are kept between blocks."""
    x, target, made = random(16, WIDTH), random(16, WIDTH), []
    block = Block(0)
    for module in block.modules():
        with torch.no_grad():
            begin(module)
    inputs = []
    for _ in range(BLOCKS):
        inputs.append(x)
        with torch.no_grad():
            x = block(x)
    x = x.requires_grad_()
    mean_square(x, target).backward()
    slope = x.grad
    for number in reversed(range(BLOCKS)):
        block.zero_grad()
        x = inputs[number].requires_grad_()
        block(x).backward(slope)
        slope = x.grad
        made += [(f"{number}.{name}", (parameter.grad.double().sum().item(), parameter.grad[:4, :4].tolist()))
                 for name, parameter in block.named_parameters()]
    return dict(made)


def profile_of_large(rank):
    """The layers of a profile under a limit: of 8 blocks with 64 MiB of weights each, half would not fit, and no more than
    one with its gradients does."""
    ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD: what is let go is given back
    resource.setrlimit(resource.RLIMIT_DATA, (allocated() + (256 << 20), resource.RLIM_INFINITY))
    with torch.device("meta"):
        model = nn.Sequential(*(Block(number, 2048) for number in range(8)))
    profile = weir.profile(model, random(4, 2048), mean_square, random(4, 2048), repeats=1)
    return [(layer["parameter_bytes"], layer["backward_ns"]) for layer in profile.document["layers"]]


def of_family(rank, plan, name, folder):
    """A model of transformers by its files, and its gradients' largest distance from the whole model's."""
    import transformers
    transformers.logging.set_verbosity_error()
    whole, sample = families.family(name), families.sample_of(name, batch=8)
    with torch.device("meta"):
        model = families.family(name)
    one = {key: value[:2] for key, value in sample.items()}
    pipe = pipeline(model, plan, one, weights=folder)
    pipe.step(**sample)
    for part in range(4):
        (whole(**{key: value[2 * part:2 * part + 2] for key, value in sample.items()}).loss / 4).backward()
    theirs = dict(whole.named_parameters())
    words = {key: value for key, value in sample.items() if key != "labels"}
    with torch.no_grad():
        wanted = whole.eval()(**words).logits
    bare, full = pipe.eval(**words), pipe.eval(**sample)
    assert bare.outputs is None or (torch.allclose(bare.outputs.logits, wanted, atol=1e-5) and not bare.losses
                                    and len(full.losses) == 4)
    held = sum(not parameter.is_meta for parameter in model.parameters())
    return held, len(theirs), max(((parameter.grad - theirs[key].grad).abs().max() / theirs[key].grad.abs().max()).item()
                                  for key, parameter in pipe.named_parameters())


def not_begun(rank, plan):
    said = []
    for make, how in ((lambda: pipeline_models.chain(8), {"init_fn": lambda module: None}),
                      (lambda: nn.Sequential(*(Bare() for _ in range(8))), {})):
        with torch.device("meta"):
            model = make()
        try:
            pipeline(model, plan, random(4, 16), loss_fn=mean_square, **how)
        except weir.WeirError as error:
            said.append(str(error))
    try:
        pipeline(pipeline_models.chain(8), plan, random(4, 16), loss_fn=mean_square, init_fn=begin)
    except weir.WeirError as error:
        said.append(str(error))
    return said


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return x * self.scale


class Hollow(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("WEIR_SOAK"), "6 GiB of memory: with WEIR_SOAK=1")
    def test_four_ranks_of_which_none_could_hold_the_model(self):
        wanted = one_block_at_a_time()
        found = {}
        for of_rank in on_ranks(4, large_step, plan_of(LARGE, "1f1b", 4, 4)):
            self.assertLess(len(of_rank), 2 * BLOCKS)  # of 4 for each block
            found.update(of_rank)
        self.assertEqual(set(wanted), set(found))
        for name, (total, corner) in wanted.items():
            mine = torch.tensor(found[name][1])
            self.assertTrue(torch.allclose(mine, torch.tensor(corner), rtol=1e-3, atol=1e-9), name)
            self.assertLess(abs(found[name][0] - total), 1e-3 * abs(total) + 1e-6, name)

    def test_files_of_transformers_by_names(self):
        try:
            import transformers
            import safetensors  # noqa: F401
        except ImportError as missing:
            self.skipTest(f"{missing.name} is not installed")
        transformers.logging.set_verbosity_error()
        for name, schedule in (("llama", "1f1b"), ("gpt2", "zb-v"), ("bert", "interleaved")):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                whole = families.family(name)
                whole.save_pretrained(folder)
                layers = [part.name for part in weir.capture.parts(whole, families.sample_of(name))]
                for held, parameters, apart in on_ranks(2, of_family, plan_of(layers, schedule, 2, 4), name, folder):
                    self.assertLess(held, parameters)
                    self.assertLess(apart, 1e-5)

    def test_parts_are_the_same_as_with_values(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        transformers.logging.set_verbosity_error()
        for name in families.FAMILIES:
            with self.subTest(name=name):
                sample = families.sample_of(name)
                with torch.device("meta"):
                    model = families.family(name)
                fill_buffers(model, None, torch.device("cpu"))
                if name == "mixtral":  # whose hooks bring router logits out of layers
                    with self.assertRaisesRegex(weir.WeirError, "constant that was made on the meta device"):
                        weir.capture.parts(model, sample)
                    continue
                wanted, found = weir.capture.parts(families.family(name), sample), weir.capture.parts(model, sample)
                self.assertEqual([(part.name, part.inputs, part.outputs) for part in wanted],
                                 [(part.name, part.inputs, part.outputs) for part in found])
                for value, meta in wanted.program.metas.items():
                    self.assertEqual((meta.shape, meta.dtype, meta.requires_grad),
                                     (found.program.metas[value].shape, found.program.metas[value].dtype,
                                      found.program.metas[value].requires_grad))

    def test_what_is_left_without_values_is_refused(self):
        for said in on_ranks(2, not_begun, plan_of([str(layer) for layer in range(8)], "1f1b", 2, 4)):
            self.assertIn("has no values behind init_fn: it must give all tensors of a Linear values", said[0])
            self.assertIn("(Bare) has no reset_parameters(): hand init_fn", said[1])
            self.assertIn("init_fn is for a model on the meta device", said[2])


SIZES = {"chain": (lambda: pipeline_models.chain(4), random(4, 16)),
         "skips": (pipeline_models.Skips, random(4, 16)),
         "tied": (pipeline_models.Tied, (torch.arange(20).view(4, 5) % 11, torch.ones(()))),
         "normed": (pipeline_models.Normed, random(2, 4, 8, 8)),
         "shared": (pipeline_models.Shared, random(4, 16))}


def square(result):
    return (result if isinstance(result, torch.Tensor) else result["logits"]).square().mean()


class Profiles(unittest.TestCase):
    def check(self, make, sample, loss_fn):
        """All but times is what the model's own profile has, and there are times of the same."""
        gc.freeze()  # what is imported, among which a profile would look for garbage; it undoes this at its end
        wanted = weir.profile(make(), sample, loss_fn, repeats=1).document
        gc.freeze()
        with torch.device("meta"):
            model = make()
        found = weir.profile(model, sample, loss_fn, repeats=1).document
        self.assertTrue(all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()]))
        for key in set(wanted) - {"layers", "source", "notes"}:
            self.assertEqual(wanted[key], found[key], key)
        self.assertEqual(len(wanted["layers"]), len(found["layers"]))
        for mine, theirs in zip(found["layers"], wanted["layers"]):
            self.assertEqual(set(theirs), set(mine))
            for key in set(theirs) - {"spread"}:
                with self.subTest(layer=theirs["name"], key=key):
                    if key.endswith("_ns"):
                        self.assertEqual(theirs[key] > 0, mine[key] > 0)
                    else:
                        self.assertEqual(theirs[key], mine[key])

    def test_a_layer_at_a_time_has_the_same_sizes(self):
        for name, (make, sample) in SIZES.items():
            with self.subTest(model=name):
                self.check(make, sample, square)

    def test_models_of_transformers(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        transformers.logging.set_verbosity_error()
        for name in ("llama", "bert"):
            with self.subTest(model=name):
                self.check(lambda: families.family(name), families.sample_of(name), None)

    def test_no_more_than_a_layer_is_there(self):
        layers, = on_ranks(1, profile_of_large)
        self.assertEqual([64 << 20] * 8, [parameter_bytes for parameter_bytes, _ in layers])
        self.assertTrue(all(took > 0 for _, took in layers))


if __name__ == "__main__":
    unittest.main()
