"""weir.profile: what the layers of any nn.Module cost, measured where they run.

    profile = weir.profile(model, sample, loss_fn=loss, target=y)
"""

import contextlib
import gc
import json
import platform
import sys
import time
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from ..documents import Profile
from .clock import Clock, clock_for
from .dispatch import measure_dispatch
from .document import Dispatch, document_of
from .errors import refusal
from .hollow import fill_buffers, is_hollow, materialized
from .leaves import uncompiled
from .memory import Bytes, count_bytes
from .parts import Parts, attributes_kept, device_kind, left_as_it_was, parts
from .recording import as_call, caches_off
from .replay import Loss, PartReplay, Replay
from .times import Times, frozen, measure_times, new_times


def profile(model: Any, sample: Any, loss_fn: Optional[Callable] = None, target: Any = None, *,
            depth: Optional[int] = None, split_at: Optional[Sequence[str]] = None, device: Any = None,
            repeats: int = 20, name: Optional[str] = None, clock: Optional[str] = None,
            stages: Optional[int] = None, progress: Optional[Callable[[str], Any]] = None,
            init_fn: Optional[Callable] = None) -> Profile:
    """Measures a model's layers: F, B, I, W and R in ns, and what each keeps and borrows in bytes.

    model    an nn.Module, or a list of modules that run one after the other; in the mode in which it trains
    sample   a micro-batch: a tensor, a tuple of arguments, or a dictionary of named ones
    loss_fn  loss_fn(result, target), or loss_fn(result) without a target; not needed where the model returns its loss
    depth, split_at  how fine the layers are (weir.capture.parts)
    device   where to run; the model is moved there. As it stands, where the model is
    repeats  samples of each time
    stages   of the plan to come, if PyTorch's runtime will run it on CPUs: what that takes for an action beside the
             layers' work (some 0.5 ms over gloo) is then measured in two processes, and shared among the layers
    progress called with a line on what is done, some times a second at most; as it stands, a terminal's standard error is
             told
    clock    "thread_cpu" or "wall" on a CPU; as it stands, the thread's own time if PyTorch computes with one thread
    init_fn  of a model on the meta device (torch.device("meta")), as weir.torch.pipeline takes it; not needed where
             modules have a reset_parameters(), or the model has _init_weights()

    A model on the meta device is measured a layer at a time, so that no more than a layer's weights, gradients and
    activations are ever there. It has no values when it returns.

    Autocast and compiled modules are measured as they run: call it inside `with torch.autocast(...)`. Parameters,
    gradients, buffers and random numbers are what they were when it returns.
    """
    model = as_module(model)
    check(model, repeats)
    tell = teller(progress)
    model, sample, target = moved(model, sample, target, device)
    hollow = is_hollow(model)
    place = as_device(device or "cpu") if hollow else torch.device(device_kind(model))
    with attributes_kept(model), left_as_it_was(model), gradients_kept(model), loss_kept(loss_fn):
        tell("taking the model apart", True)
        if hollow:
            fill_buffers(model, init_fn, torch.device("cpu"))
        whole = parts(model, sample, depth=depth, split_at=split_at)
        dispatch = dispatch_of(whole, stages, place)
        loss = Loss(whole, loss_fn, target)
        watch = clock_for(place, clock)
        measure = measured_alone if hollow else measured_together
        flops, books, times = measure(whole, sample, loss, place, watch, repeats, tell, init_fn)
    head = {"model": name or type(model).__name__, "micro_batch": micro_batch_of(whole, sample)}
    source = {"device": device_name(place), "clock": watch.name, "repeats": repeats}
    notes = notes_of(whole, times, place, dispatch, hollow)
    document = document_of(whole, books, times, flops, head, source, dispatch, notes)
    return Profile.from_json(json.dumps(document))


def measured_together(whole: Parts, sample: Any, loss: Loss, place: torch.device, watch: Clock, repeats: int,
                      tell: Callable, _: Optional[Callable]) -> Tuple[List[int], List[Bytes], Times]:
    """Each layer behind those in front of it, as in training."""
    tell(f"counting the bytes of {len(whole)} layers", True)
    replay = Replay(whole, sample, loss)
    add_gradients(whole.model)
    flops = count_flops(replay)
    books = count_bytes(replay, place)
    args, kwargs = as_call(sample)
    with caches_off(whole.model):
        times = measure_times(replay, watch, lambda: loss(whole.model(*args, **kwargs)).backward(), repeats, tell)
    return flops, books, times


def measured_alone(whole: Parts, sample: Any, loss: Loss, place: torch.device, watch: Clock, repeats: int,
                   tell: Callable, init_fn: Optional[Callable]) -> Tuple[List[int], List[Bytes], Times]:
    """A layer after the other, each with weights while it is measured; what others read of it is kept until then."""
    flops, books, times = [], [], new_times(len(whole))
    values, asking = {}, set()
    last_read = {value: number for number, part in enumerate(whole) for value in part.inputs}
    for number, part in enumerate(whole):
        tell(f"measuring {part.name}, layer {number + 1} of {len(whole)}", number == 0)
        with materialized(whole.model, part.module, init_fn, place):
            with frozen():  # or each collection looks at all that PyTorch has
                replay = PartReplay(whole, number, values, asking, sample, loss)
                values.update(replay.outputs())
                add_gradients(part.module)
                flops += count_flops(replay)
                books += count_bytes(replay, place)
                found = measure_times(replay, watch, None, repeats)
        for phase, samples in found.samples.items():
            times.samples[phase][number] = samples[0]
        times.unsplit.update((number, why) for why in found.unsplit.values())
        times.whole = [sum(both) for both in zip(times.whole or [0] * repeats, found.whole)]
        values = {value: tensor for value, tensor in values.items() if last_read.get(value, -1) > number}
        del replay
        gc.collect()  # of the layer's weights
    return flops, books, times


def teller(progress: Optional[Callable[[str], Any]]) -> Callable[[str, bool], None]:
    """What hands lines on: each that is important, and of the others two a second."""
    if progress is None and sys.stderr.isatty():
        def progress(line: str) -> None:
            print(f"weir.profile: {line}", file=sys.stderr, flush=True)
    last = [0.0]

    def tell(line: str, important: bool = False) -> None:
        if progress is not None and (important or time.monotonic() - last[0] > 0.5):
            last[0] = time.monotonic()
            progress(line)
    return tell


def dispatch_of(whole: Parts, stages: Optional[int], place: torch.device) -> Dispatch:
    if stages is None:
        return Dispatch(0, 0)
    if isinstance(stages, bool) or not isinstance(stages, int) or not 1 <= stages <= len(whole):
        raise refusal(f"stages is {stages!r}, and must be a whole number from 1 to {len(whole)}, the layers")
    if place.type != "cpu":
        raise refusal("stages: what PyTorch's runtime takes for an action is timed over gloo, on CPUs; leave it out")
    return Dispatch(stages, measure_dispatch())


def as_module(model: Any) -> nn.Module:
    if isinstance(model, (list, tuple)) and model and all(isinstance(module, nn.Module) for module in model):
        return nn.Sequential(*model)
    if not isinstance(model, nn.Module):
        raise refusal(f"model is a {type(model).__name__}, and must be a torch.nn.Module or a list of them")
    return model


def check(model: nn.Module, repeats: int) -> None:
    if uncompiled(model) is not model:
        raise refusal("the model is compiled as a whole, and a graph over all layers cannot be cut; hand over the "
                      "model itself, with its blocks compiled (for block in model.blocks: block.compile())")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise refusal("the model has no parameters that need gradients, so there is nothing to train and to cut")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise refusal(f"repeats is {repeats!r}, and must be a whole number from 1")


def as_device(device: Any) -> torch.device:
    """A device that is here."""
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        raise refusal(f"device is {device!r}, and must be one of PyTorch's: 'cpu', 'cuda', 'cuda:1'") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise refusal(f"device is {device!r}, but PyTorch finds no GPU here (torch.cuda.is_available() is False); go "
                      "where there is one, or use device='cpu'")
    return place


def moved(model: nn.Module, sample: Any, target: Any, device: Any) -> tuple:
    if device is None:
        return model, sample, target
    place = as_device(device)
    if place.type not in ("cpu", "cuda"):
        raise refusal(f"device is {device!r}; times are taken on 'cpu' and on 'cuda'")
    if place.type == "cuda":
        torch.cuda.set_device(place)

    def move(leaf: Any) -> Any:
        return leaf.to(place) if isinstance(leaf, torch.Tensor) else leaf

    return model if is_hollow(model) else model.to(place), pytree.tree_map(move, sample), pytree.tree_map(move, target)


@contextlib.contextmanager
def gradients_kept(model: nn.Module) -> Iterator[None]:
    """Gradients are behind it what they were before."""
    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.grad = None
        yield
    finally:
        for parameter, grad in before:
            parameter.grad = grad


@contextlib.contextmanager
def loss_kept(loss_fn: Optional[Callable]) -> Iterator[None]:
    """The same of a loss that is a module, such as one with a temperature to learn."""
    if not isinstance(loss_fn, nn.Module):
        yield
        return
    with left_as_it_was(loss_fn), gradients_kept(loss_fn):
        yield


def add_gradients(model: nn.Module) -> None:
    """All micro-batches but the first find gradients to add theirs to, and so do ours."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)


def count_flops(replay: Replay) -> List[int]:
    """Of the parts' forwards, as PyTorch counts them: of products of matrices and convolutions."""
    counts = []

    def counted(place: int, work: Callable) -> Any:
        with FlopCounterMode(display=False) as counter:
            result = work()
        counts.append(counter.get_total_flops())
        return result

    replay.forward(counted)  # with gradients: its counter looks for those of what submodules are handed
    return counts


def micro_batch_of(whole: Parts, sample: Any) -> int:
    """The first dimension of the first tensor of the sample."""
    first = whole.tensors_of(sample)[0]
    return first.shape[0] if first.dim() and first.shape[0] else 1


def device_name(place: torch.device) -> str:
    if place.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        processor = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), processor)
    threads = torch.get_num_threads()
    return f"cpu: {processor}, {threads} thread{'s' if threads > 1 else ''}, PyTorch {torch.__version__}"


def notes_of(whole: Parts, times: Times, place: torch.device, dispatch: Dispatch, hollow: bool) -> str:
    """What a reader of the numbers should know, a sentence each."""
    notes = ["No device held the model: each layer was measured alone, with warm caches; whole_ns is their sum."] * hollow
    if times.warm:
        notes.append(f"Each layer alone, with warm caches, the layers add up to {min(times.warm)} to {max(times.warm)} "
                     "ns; sum_ns is in place, behind the others.")
    if dispatch.stages:
        notes.append(f"PyTorch's runtime takes {dispatch.ns} ns for an action; of {dispatch.stages} stages, each layer "
                     f"has {dispatch.share(len(whole))} of it in F, B, I and W.")
    if times.unsplit:
        place_of, reason = next(iter(times.unsplit.items()))
        notes.append(f"PyTorch cannot split the backward of {len(times.unsplit)} layers, the first of them "
                     f"{whole[place_of].name}: {reason}")
    if torch.is_autocast_enabled(place.type):
        notes.append(f"Under autocast to {str(torch.get_autocast_dtype(place.type)).rpartition('.')[2]}.")
    if whole.unused():
        notes.append(f"Parameters that no layer reads on this sample, the first of them {whole.unused()[0]}: "
                     f"{len(whole.unused())}.")
    if any(len(part.outputs) > 1 for part in whole.parts[:-1]):
        notes.append("Layers that hand on several tensors: output_bytes is their sum, sends what each reader takes.")
    return " ".join(notes)
