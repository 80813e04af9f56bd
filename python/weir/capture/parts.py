"""A model taken apart: parts that run one after the other, and what passes between them.

    parts = weir.capture.parts(model, sample)
    for part in parts: print(part.name, part.inputs, part.outputs)
    first = parts.join(0, 3)          # parts 0, 1 and 2 as one module: a stage
    outputs = first.module(*inputs)   # tensors in, a tuple of tensors out

Running all parts in order computes what the model computes, to the bit, and calls its modules: their parameters,
buffers and hooks are the model's own. Parts are made for the shapes of the sample: run them on micro-batches like it.
docs/decisions/060 says why parts are steps that were seen to run, and neither an exported nor a traced graph.
"""

import contextlib
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils import _pytree as pytree

from .errors import refusal
from .leaves import choose_leaves, uncompiled
from .recording import Attribute, Program, Step, as_call, record


_OF_ALL = frozenset(vars(nn.Module()))  # what every module has


class Segment(nn.Module):
    """Steps as a module: tensors in the order of `reads` in, a tuple of tensors in the order of `hands_on` out."""

    def __init__(self, steps: Sequence[Step], reads: Sequence[int], hands_on: Sequence[int]):
        super().__init__()
        self.steps = list(steps)
        self.reads = list(reads)
        self.hands_on = list(hands_on)
        self.last_use = self.find_last_uses()
        self.bring_in_modules()
        self.bring_in_constants()

    def find_last_uses(self) -> List[List[int]]:
        """By step: values that nobody needs behind it, so that they are let go as the model's own forward would."""
        last: Dict[int, int] = {value: 0 for value in self.reads}
        for place, step in enumerate(self.steps):
            last.update((value, place) for value in [*step.reads(), *step.makes()])
        uses: List[List[int]] = [[] for _ in self.steps]
        for value, place in last.items():
            if value not in self.hands_on:
                uses[place].append(value)
        return uses

    def bring_in_modules(self) -> None:
        """What steps call and read is registered, so that .parameters(), .to() and .train() reach it."""
        for step in self.steps:
            if step.leaf is not None:
                key = self.free(step.leaf.partition("@")[0].replace(".", "/") or type(step.call).__name__)
                if key not in self._modules:
                    self.add_module(key, step.call)
            for leaf in step.arguments:
                if isinstance(leaf, Attribute) and not isinstance(leaf.get(), nn.Parameter):
                    self.register_buffer(self.free(leaf.name.replace(".", "/")), leaf.get(), persistent=False)
                elif isinstance(leaf, Attribute):
                    self.register_parameter(self.free(leaf.name.replace(".", "/")), leaf.get())

    def free(self, key: str) -> str:
        """The key, or another one where this module has an attribute of that name, such as steps."""
        own = hasattr(self, key) and key not in self._modules | self._buffers | self._parameters
        return f"/{key}" if own else key

    def bring_in_constants(self) -> None:
        """Constants become buffers of the segment, so that they move with it; steps of it read them from here."""
        steps, count = [], 0
        for step in self.steps:
            arguments = list(step.arguments)
            for place, leaf in enumerate(arguments):
                if isinstance(leaf, torch.Tensor):
                    key = f"constant{count}"
                    count += 1
                    self.register_buffer(key, leaf, persistent=False)
                    arguments[place] = Attribute(self, key, key)
            steps.append(step.reading(arguments))
        self.steps = steps

    def forward(self, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        if len(tensors) != len(self.reads):
            raise refusal(f"this part reads {len(self.reads)} tensors and was handed {len(tensors)}")
        values = dict(zip(self.reads, tensors))
        del tensors
        for step, done in zip(self.steps, self.last_use):
            step.run(values)
            for value in done:
                values.pop(value, None)
        return tuple(values[value] for value in self.hands_on)


class Part:
    """Consecutive parts of a model, at first one.

    name        its first module, as the model calls it; a profile's layer
    module      an nn.Module: tensors of `inputs` in, a tuple of those of `outputs` out
    inputs      values that it reads, of earlier parts or of the sample (Parts.inputs)
    outputs     values that later parts or the model's result need; the last part hands on the whole result
    parameters  by qualified name, what it reads of the model
    """

    def __init__(self, name: str, steps: List[Step], inputs: List[int], outputs: List[int], names: Dict[int, str]):
        self.name = name
        self.steps = steps
        self.inputs = inputs
        self.outputs = outputs
        self.module = Segment(steps, inputs, outputs)
        self.parameters: Dict[str, nn.Parameter] = {}
        for parameter in self.module.parameters():
            if id(parameter) in names:
                self.parameters[names[id(parameter)]] = parameter

    def __call__(self, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        return self.module(*tensors)

    def __repr__(self) -> str:
        return f"Part({self.name!r}, inputs={self.inputs}, outputs={self.outputs})"


class Parts:
    """The parts of a model in the order in which they run; tensors between them go by number (`values`).

    inputs  values that are the sample's tensors, in order
    result  values that the model's result is made of; result_of(values) makes it
    """

    def __init__(self, model: nn.Module, program: Program, cuts: List[Tuple[str, int]]):
        self.model = model
        self.program = program
        self.inputs = program.inputs
        self.result = [leaf.index for leaf in program.result if hasattr(leaf, "index")]
        self.names = {id(tensor): name for name, tensor in model.named_parameters()}
        self.cuts = cuts
        ends = [first for _, first in cuts[1:]] + [len(program.steps)]
        self.ranges = [program.steps[first:end] for (_, first), end in zip(cuts, ends)]
        self.maker = {value: place for place, steps in enumerate(self.ranges)
                      for step in steps for value in step.makes()}
        self.changed_values = {before for step in program.steps for before, _ in step.changed}
        self.parts = [self.stage([place]) for place in range(len(cuts))]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self):
        return iter(self.parts)

    def __getitem__(self, place: int) -> Part:
        return self.parts[place]

    def stage(self, places: Iterable[int]) -> Part:
        """Some parts as one, in the order given, which has to be one in which each comes behind what it reads."""
        places = list(places)
        steps = [step for place in places for step in self.ranges[place]]
        made = {value for step in steps for value in step.makes()}
        reads = [value for step in steps for value in step.reads() if value not in made]
        last = len(self.ranges) - 1 in places  # which hands on the whole result, whoever has made it
        reads += [value for value in self.result if last and value not in made]
        others = {value for place, rest in enumerate(self.ranges) if place not in places
                  for step in rest for value in step.reads()}
        needed = others.union(self.result)
        hands_on = [value for step in steps for value in step.makes() if value in needed]
        hands_on += self.result if last else []
        name = self.cuts[places[0]][0]
        return Part(name, steps, list(dict.fromkeys(reads)), list(dict.fromkeys(hands_on)), self.names)

    def join(self, first: int, end: int) -> Part:
        """Parts first to end - 1 as one: the stage of a plan whose layers they are."""
        return self.stage(range(first, end))

    def edges(self) -> List[Tuple[int, int]]:
        """(from, to) wherever a part reads what another one has made."""
        return sorted({(self.maker[value], place) for place, part in enumerate(self.parts)
                       for value in part.inputs if value in self.maker})

    def tied(self) -> List[Tuple[int, int]]:
        """Pairs of parts that read the same parameter."""
        readers: Dict[int, List[int]] = {}
        for place, part in enumerate(self.parts):
            for parameter in part.parameters.values():
                readers.setdefault(id(parameter), []).append(place)
        return sorted({(places[0], later) for places in readers.values() for later in places[1:]})

    def no_cut_after(self) -> List[int]:
        """Parts after which no stage may end, since a later one changes in place what was made before."""
        kept: Set[int] = set()
        for place, steps in enumerate(self.ranges):
            for before in [before for step in steps for before, _ in step.changed]:
                kept.update(range(self.maker[before], place))
        return sorted(kept)

    def unused(self) -> List[str]:
        """Parameters that no part reads."""
        read = {id(parameter) for part in self.parts for parameter in part.parameters.values()}
        return [name for name, parameter in self.model.named_parameters() if id(parameter) not in read]

    def tensors_of(self, sample: Any) -> List[torch.Tensor]:
        """The tensors of a sample like the one that the parts were made of."""
        flat, spec = pytree.tree_flatten(as_call(sample))
        if spec != self.program.input_spec:
            raise refusal("this sample is built in another way than the one that the model was taken apart with")
        return [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]

    def result_of(self, values: Dict[int, torch.Tensor]) -> Any:
        """What the model returns, of the values of `result`."""
        leaves = [values[leaf.index] if hasattr(leaf, "index") else leaf.get() if isinstance(leaf, Attribute) else leaf
                  for leaf in self.program.result]
        return pytree.tree_unflatten(leaves, self.program.result_spec)

    def run(self, sample: Any) -> Any:
        """All parts in order: what model(sample) returns."""
        values = dict(zip(self.inputs, self.tensors_of(sample)))
        for part in self.parts:
            values.update(zip(part.outputs, part.module(*[values[value] for value in part.inputs])))
        return self.result_of(values)


def has_parameters(step: Step) -> bool:
    return step.leaf is not None and next(step.call.parameters(), None) is not None


def cuts_by_leaves(program: Program, merge: bool) -> List[Tuple[str, int]]:
    """A part for each call of a leaf; merged: those without parameters belong to the one before."""
    leaves = [(step.leaf, place, has_parameters(step)) for place, step in enumerate(program.steps)
              if step.leaf is not None]
    if merge and any(own for _, _, own in leaves):
        leaves = [leaf for leaf in leaves if leaf[2]]
    return [(name, place) for name, place, _ in leaves]


def cuts_by_names(program: Program, names: Sequence[str]) -> List[Tuple[str, int]]:
    """Parts that begin at the modules named."""
    entries: Dict[str, int] = {}
    for name, place in program.entries:
        entries.setdefault(name, place)
    for name in names:
        if name not in entries:
            raise refusal(f"split_at: {name!r} does not run on this sample")
    cuts = sorted(((name, entries[name]) for name in names), key=lambda cut: cut[1])
    for (name, place), (other, other_place) in zip(cuts, cuts[1:]):
        if place == other_place:
            raise refusal(f"split_at: {name!r} and {other!r} begin at the same place; leave one of them out")
    before = [step for step in program.steps[:cuts[0][1]] if step.leaf is not None]
    if any(has_parameters(step) for step in before):
        cuts.insert(0, (before[0].leaf, 0))
    return cuts


@contextlib.contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Buffers (running means of a BatchNorm) and random numbers are behind it what they were before."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = [torch.cuda.current_device()] if device_kind(model) == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


@contextlib.contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """What forwards count in attributes, or put there in place of a buffer, is behind it what it was before. Not a part
    of left_as_it_was, since two recordings between which something counts must differ."""
    attributes = [Attributes(module) for module in model.modules() if not isinstance(module, LazyModuleMixin)]
    try:
        yield
    finally:
        for of_module in attributes:
            of_module.put_back()


class Attributes:
    """What a module has besides parameters and modules; lists and the like with what was in them."""

    def __init__(self, module: nn.Module):
        self._module, self._attributes, self._buffers = module, dict(vars(module)), dict(module._buffers)
        self._contents = [(thing, thing.copy()) for key, thing in vars(module).items()
                          if isinstance(thing, (list, dict, set)) and key not in _OF_ALL]

    def put_back(self) -> None:
        vars(self._module).clear()
        vars(self._module).update(self._attributes)
        self._module._buffers.clear()
        self._module._buffers.update(self._buffers)
        for thing, content in self._contents:
            thing.clear()
            (thing.extend if isinstance(thing, list) else thing.update)(content)


def device_kind(model: nn.Module) -> str:
    tensor = next(model.parameters(), next(model.buffers(), None))
    return "cpu" if tensor is None or tensor.is_meta else tensor.device.type


def parts(model: nn.Module, sample: Any, depth: Optional[int] = None,
          split_at: Optional[Sequence[str]] = None) -> Parts:
    """Takes a model apart, by running it once on `sample` (a tensor, a tuple of arguments, or a dictionary).

    As it stands, parts are the members of lists (nn.ModuleList, nn.Sequential) and the modules beside them; a module
    without parameters belongs to the part before it. `depth` counts levels below the model instead, each module there
    a part. `split_at` names the modules at which parts begin; the names of a profile's layers give that profile's
    parts again. A module that runs a second time is NAME@2.
    """
    model = uncompiled(model)
    names = None if split_at is None else list(split_at)
    if names == []:
        raise refusal("split_at is empty: name the modules at which parts begin")
    leaves = choose_leaves(model, depth, names)
    with left_as_it_was(model):
        program = record(model, leaves, sample, device_kind(model))
        if program.detached:  # seen from inside they are mostly constants, which need not travel from stage to stage
            leaves = {name: leaf for name, leaf in leaves.items() if name not in program.detached}
            program = record(model, leaves, sample, device_kind(model))
    cuts = cuts_by_names(program, names) if names else cuts_by_leaves(program, depth is None)
    if not cuts:
        cuts = [(type(model).__name__, 0)]
    cuts[0] = (cuts[0][0] or type(model).__name__, 0)
    return Parts(model, program, cuts)
