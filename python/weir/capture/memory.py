"""What the parts keep, and what they borrow: bytes, each tensor rounded up to 256.

What autograd saves is seen by saved_tensors_hooks, by storage: a tensor that two operators save, or views of one, count
once; parameters, buffers and constants do not, since they are there anyway. A part's input is its producer's, and so
is an output that its reader keeps as its input. What PyTorch holds between I and W is what of it has not been let go
behind I, which is nearly all, with the gradients that W begins from.
"""

import gc
import os
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, List, Set, Tuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from .replay import Replay, Run, input_backward, takes_gradient, whole_backward


def rounded(size: int) -> int:
    return (size + 255) // 256 * 256


def bytes_of(tensor: torch.Tensor) -> int:
    """What it takes to hand it on."""
    return rounded(tensor.numel() * tensor.element_size())


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


@dataclass
class Bytes:
    """Of one part. `saved`, `held`: storages (by id) with their bytes; the model's own and inputs are left out."""

    output: int = 0
    saved: Dict[int, int] = field(default_factory=dict)
    held: Dict[int, int] = field(default_factory=dict)
    outputs: Dict[int, Tuple[int, int, int]] = field(default_factory=dict)  # value: storage, its bytes, those handed on
    sample: Set[int] = field(default_factory=set)  # storages among `saved` that the sample brought
    kept_inputs: Set[int] = field(default_factory=set)  # values
    input_kept: str = "none"
    workspace: int = 0
    backward_workspace: int = 0


class Box:
    """What autograd holds of a saved tensor; gone when it has let it go."""

    def __init__(self, tensor: torch.Tensor, place: int):
        self.tensor = tensor.detach()
        self.place = place

    __slots__ = ("tensor", "place", "__weakref__")


class Bookkeeper:
    """Forwards and an I of the parts, with an eye on what is saved."""

    def __init__(self, replay: Replay):
        self.replay = replay
        self.own = {storage_of(tensor) for part in replay.parts
                    for tensor in [*part.module.parameters(), *part.module.buffers()]}
        self.sample: Dict[int, int] = {}  # storages, with what a micro-batch takes of them: it may be a part of a batch
        for tensor in replay.sample.values():
            self.sample[storage_of(tensor)] = self.sample.get(storage_of(tensor), 0) + bytes_of(tensor)
        self.boxes: List[weakref.ref] = []
        self.poisoned: Set[int] = set()  # storages that unpack as NaN

    def pack(self, place: int, tensor: torch.Tensor) -> Any:
        box = Box(tensor, place)
        self.boxes.append(weakref.ref(box))
        return box

    def unpack(self, box: Box) -> torch.Tensor:
        if storage_of(box.tensor) in self.poisoned and box.tensor.is_floating_point():
            return torch.full_like(box.tensor, float("nan"))
        return box.tensor

    def hooked(self, place: int, work: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: self.pack(place, tensor), self.unpack):
            return work()

    def alive(self, place: int) -> Dict[int, int]:
        """Storages that the boxes of a part hold, with their bytes."""
        tensors = [box.tensor for box in (ref() for ref in self.boxes) if box is not None and box.place == place]
        return {storage_of(tensor): self.size_of(tensor) for tensor in tensors}

    def size_of(self, tensor: torch.Tensor) -> int:
        """Of its whole storage."""
        return self.sample.get(storage_of(tensor)) or rounded(tensor.untyped_storage().nbytes())

    def count(self) -> List[Bytes]:
        runs = self.replay.forward(self.hooked)
        books = [self.count_saved(place, run) for place, run in enumerate(runs)]
        self.find_needs(runs, books)
        gc.collect()
        self.replay.backward(runs, lambda place, run, roots: self.count_held(place, run, roots, books[place]))
        return books

    def count_saved(self, place: int, run: Run) -> Bytes:
        book = Bytes()
        saved = self.alive(place)
        inputs: Dict[int, List[int]] = {}
        for value, leaf in zip(run.part.inputs, run.leaves):
            inputs.setdefault(storage_of(leaf), []).append(value)
        for storage, size in saved.items():
            if storage in self.sample:
                book.sample.add(storage)
            if storage in inputs and storage not in self.sample:
                book.kept_inputs.update(inputs[storage])
            elif storage not in self.own:
                book.saved[storage] = size
        if run.loss is not None:  # what the model returns is there until its backward, whoever saves it
            book.saved.update((storage_of(tensor), self.size_of(tensor)) for tensor in run.outputs
                              if storage_of(tensor) not in inputs and storage_of(tensor) not in self.own)
        for value, tensor in zip(run.part.outputs, run.outputs) if run.loss is None else ():
            whole = rounded(tensor.untyped_storage().nbytes())
            book.outputs[value] = (storage_of(tensor), whole, bytes_of(tensor))
            book.output += bytes_of(tensor)
        if book.kept_inputs:
            book.input_kept = "weight"
        return book

    def find_needs(self, runs: List[Run], books: List[Bytes]) -> None:
        """Whether I needs the inputs: it gives NaN where they are replaced by NaN."""
        for place, (run, book) in enumerate(zip(runs, books)):
            asking = [leaf for leaf in run.leaves if leaf.requires_grad]
            outputs = [run.loss] if run.loss is not None else [out for out in run.outputs if out.requires_grad]
            if not asking or not outputs or not book.kept_inputs:
                continue
            self.poisoned = {storage_of(leaf) for leaf in run.leaves}
            try:
                slopes = torch.autograd.grad(outputs, asking, [torch.ones_like(out) for out in outputs],
                                             retain_graph=True, allow_unused=True)
                if any(slope is not None and bool(slope.isnan().any()) for slope in slopes):
                    book.input_kept = "both"
            except RuntimeError:  # a compiled part cannot be asked twice
                book.input_kept = "both"
            finally:
                self.poisoned = set()

    def count_held(self, place: int, run: Run, roots: list, book: Bytes) -> None:
        """Does I of a part, and looks at what is there for W."""
        inputs = {storage_of(leaf) for leaf in run.leaves}
        if not takes_gradient(run):
            book.held = {storage_of(slope): rounded(slope.untyped_storage().nbytes()) for _, slope in roots
                         if slope is not None}
            book.held.update(book.saved)
            whole_backward(roots)
            return
        slopes = {storage_of(slope) for _, slope in roots if slope is not None}
        try:
            groups = input_backward(run, roots)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # not to be split: all of it waits
            groups = []
            book.held = {storage: size for storage, size in book.saved.items()}
            whole_backward(roots)
            return
        del roots[:], slopes
        run.outputs, run.loss = (), None
        gc.collect()
        book.held = self.kept_of(place, inputs)
        for group in groups:
            for tensor in [tensor for grads in group.get("grads") or [] for tensor in grads or ()]:
                if tensor is not None:
                    book.held[storage_of(tensor)] = rounded(tensor.untyped_storage().nbytes())

    def kept_of(self, place: int, inputs: Set[int]) -> Dict[int, int]:
        return {storage: size for storage, size in self.alive(place).items()
                if storage not in self.own and (storage not in inputs or storage in self.sample)}


@dataclass
class Level:
    """Allocated bytes while something ran, counted from where it began: the most, and at its end."""

    peak: int = 0
    end: int = 0

    def add(self, size: int) -> None:
        self.end += size
        self.peak = max(self.peak, self.end)


def levels_of_allocator(work: Any) -> Tuple[Any, Dict[str, Level]]:
    """Runs work(around), which calls around(name, part of it), and takes the levels of each part from PyTorch's
    own record of allocations on the CPU."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or it greets on stderr

    def around(name: str, part: Any) -> Any:
        with record_function(f"weir {name}"):
            return part()

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = work(around)
    spans: List[Tuple[int, int, str]] = []
    changes: List[Tuple[int, int]] = []
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            changes.append((event.start_ns(), event.nbytes()))
        elif event.name().startswith("weir "):
            spans.append((event.start_ns(), event.start_ns() + event.duration_ns(), event.name()[5:]))
    levels = {name: Level() for _, _, name in spans}
    for start, end, name in spans:
        for _, size in sorted((at, size) for at, size in changes if start <= at <= end):
            levels[name].add(size)
    return result, levels


def levels_of_cuda(work: Any) -> Tuple[Any, Dict[str, Level]]:
    """The same from the statistics of PyTorch's allocator of a GPU."""
    levels: Dict[str, Level] = {}

    def around(name: str, part: Any) -> Any:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = part()
        torch.cuda.synchronize()
        levels[name] = Level(torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before)
        return result

    return work(around), levels


def levels_of(device: torch.device, work: Any) -> Tuple[Any, Dict[str, Level]]:
    return levels_of_cuda(work) if device.type == "cuda" else levels_of_allocator(work)


def add_workspaces(replay: Replay, books: List[Bytes], device: torch.device) -> None:
    """Forward: the most there is beyond what stays behind it. Backward: the most beyond the gradients of inputs, for
    which a stage has the inputs' own places. Gradients of parameters are there already, as in training."""
    sizes = [0] * len(books)

    def work(around: Any) -> None:
        runs = replay.forward(lambda place, part: around(f"F{place}", part))

        def back(place: int, run: Run, roots: list) -> None:
            around(f"B{place}", lambda: whole_backward(roots))
            sizes[place] = sum(bytes_of(leaf.grad) for leaf in run.leaves if leaf.grad is not None)

        replay.backward(runs, back)

    _, levels = levels_of(device, work)
    for place, book in enumerate(books):
        forward, backward = levels.get(f"F{place}", Level()), levels.get(f"B{place}", Level())
        book.workspace = rounded(max(0, forward.peak - forward.end))
        book.backward_workspace = rounded(max(0, backward.peak - sizes[place]))


def count_bytes(replay: Replay, device: torch.device) -> List[Bytes]:
    """The bytes of all parts; their parameters' gradients are there before."""
    books = Bookkeeper(replay).count()
    gc.collect()
    add_workspaces(replay, books, device)
    return books
