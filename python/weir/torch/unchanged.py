"""Whether a model still does what its stages were made of.

Stages are steps that were seen to run (docs/decisions/060). What the modules that were taken apart read besides
tensors is written into these steps: attributes, numbers that the model is handed, buffers that only constants are made
of. Where such a thing has changed, the model is recorded again: a step with another program would have gradients of a
model that nobody has.
"""

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.utils import _pytree as tree

from ..capture.errors import refusal
from ..capture.leaves import plain_name, uncompiled
from ..capture.parts import Parts, attributes_kept
from ..capture.recording import Attribute, Program, Step, Value, as_call

_OF_MODULES = frozenset(vars(nn.Module()))  # what every module has, and no forward reads
_DEEPEST = 4  # objects in objects, such as a configuration's


# --- programs ------------------------------------------------------------------------------------

def _is_same(a: Any, b: Any) -> bool:
    """Two leaves of a step's arguments, or two calls."""
    if isinstance(a, Attribute) and isinstance(b, Attribute):
        return a.name == b.name
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    if type(a) is not type(b):
        return False
    if isinstance(a, functools.partial):
        return _is_same(a.func, b.func) and a.args == b.args and a.keywords == b.keywords
    if hasattr(a, "__code__"):  # a function that a forward makes anew is another object each time
        return a.__code__ is b.__code__
    return a is b or a == b or (a != a and b != b)


def _shown(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"a constant of shape {tuple(leaf.shape)}" if leaf.numel() != 1 else f"{leaf.item():.6g}"
    if isinstance(leaf, Attribute):
        return leaf.name
    return f"value {leaf.index}" if isinstance(leaf, Value) else f"{leaf!r:.60}"


def _step_differs(a: Step, b: Step) -> Optional[str]:
    name = a.leaf or getattr(a.call, "__name__", str(a.call))
    if not _is_same(a.call, b.call) or a.leaf != b.leaf:
        return f"{b.leaf or getattr(b.call, '__name__', b.call)} runs in place of {name}"
    if a.spec != b.spec or len(a.arguments) != len(b.arguments):
        return f"{name} is called in another way"
    for mine, theirs in zip(a.arguments, b.arguments):
        if not _is_same(mine, theirs):
            return f"{name} is handed {_shown(theirs)} in place of {_shown(mine)}"
    if (a.outputs, a.changed, a.grad, a.autocast) != (b.outputs, b.changed, b.grad, b.autocast):
        return f"{name} is called in another way"
    return None


def difference(a: Program, b: Program) -> Optional[str]:
    """What the second does otherwise than the first, or None."""
    for mine, theirs in zip(a.steps, b.steps):
        said = _step_differs(mine, theirs)
        if said is not None:
            return said
    if len(a.steps) != len(b.steps):
        return f"it does {len(b.steps)} steps and not {len(a.steps)}"
    if a.result_spec != b.result_spec or not all(map(_is_same, a.result, b.result)):
        return "it returns something else"
    return None


# --- what a program has been made of -------------------------------------------------------------

def _frozen(thing: Any, depth: int = 0) -> Any:
    """Something that is equal as long as the thing is as it was."""
    if isinstance(thing, torch.Tensor):  # of which nothing is read here: it may be large, or on a GPU
        return "tensor", id(thing), thing._version, thing.untyped_storage()._cdata  # of which .data = makes another one
    if isinstance(thing, _Told):
        return _frozen({key: item for key, item in vars(thing.module).items() if key not in _OF_MODULES})
    if isinstance(thing, float) and thing != thing:
        return "nan"
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes)):
        return type(thing).__name__, thing
    if depth < _DEEPEST and isinstance(thing, (tuple, list, set, frozenset)):
        return type(thing).__name__, tuple(_frozen(item, depth + 1) for item in thing)
    if depth < _DEEPEST and isinstance(thing, dict):
        return "dict", tuple((_frozen(key, depth + 1), _frozen(item, depth + 1)) for key, item in thing.items())
    if hasattr(thing, "tobytes"):  # numpy's
        return type(thing).__name__, thing.tobytes()
    if depth < _DEEPEST and hasattr(thing, "__dict__") and not callable(thing):
        return type(thing).__name__, id(thing), _frozen(vars(thing), depth + 1)
    return type(thing).__name__, id(thing)


def _entered(model: nn.Module, program: Program) -> List[Tuple[str, nn.Module]]:
    """The modules that were taken apart: those in no leaf."""
    leaves = {plain_name(step.leaf) for step in program.steps if step.leaf is not None}
    if "" in leaves:
        return []

    def is_inside(name: str) -> bool:
        above = name.split(".")
        return any(".".join(above[:end]) in leaves for end in range(1, len(above) + 1))

    return [(name, module) for name, module in model.named_modules() if name == "" or not is_inside(name)]


def _state_of(modules: List[Tuple[str, nn.Module]]) -> Dict[str, Any]:
    """By qualified name, their attributes and buffers."""
    state = {}
    for name, module in modules:
        prefix = f"{name}." if name else ""
        for key, thing in vars(module).items():
            if key not in _OF_MODULES:
                state[prefix + key] = _frozen(thing)
        state.update((prefix + key, _frozen(thing)) for key, thing in module._buffers.items())
        state.update((prefix + key, id(thing)) for key, thing in module._modules.items())
    return state


def _parameters_of(model: nn.Module) -> Dict[str, Tuple[bool, torch.dtype, nn.Parameter]]:
    return {name: (parameter.requires_grad, parameter.dtype, parameter) for name, parameter in model.named_parameters()}


class _Told:
    """What a module has in attributes that are its own."""

    def __init__(self, module: nn.Module):
        self.module = module


def _shared_by_stages(parts: Parts, stage_of: Dict[str, int]) -> List[Tuple[str, Any]]:
    """Objects in the attributes of modules that are called as they are, on more stages than one; by where one is."""
    found: Dict[int, Tuple[str, Any, set]] = {}

    def note(name: str, thing: Any, stage: int, depth: int) -> None:
        is_plain = isinstance(thing, (list, dict, set)) or (hasattr(thing, "__dict__") and not callable(thing))
        if depth > _DEEPEST or not (is_plain or isinstance(thing, torch.Tensor)) or isinstance(thing, nn.Parameter):
            return
        found.setdefault(id(thing), (name, thing, set()))[2].add(stage)
        items = (thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, set))
                 else vars(thing).values() if hasattr(thing, "__dict__") and not isinstance(thing, torch.Tensor)
                 else ())
        for item in list(items):
            note(name, item, stage, depth + 1)

    for part in parts:
        for step in part.steps:
            if step.leaf is None:
                continue
            for name, module in step.call.named_modules():
                path = ".".join(filter(None, (plain_name(step.leaf), name)))
                found.setdefault(id(module), (path, _Told(module), set()))[2].add(stage_of[part.name])
                for key, thing in vars(module).items():
                    if key not in _OF_MODULES:
                        note(f"{path}.{key}", thing, stage_of[part.name], 0)
    return [(name, thing) for name, thing, stages in found.values() if len(stages) > 1]


def _numbers_of(call: Any) -> List[Any]:
    return [_frozen(leaf) for leaf in tree.tree_leaves(as_call(call)) if not isinstance(leaf, torch.Tensor)]


def modes_of(model: nn.Module) -> List[bool]:
    return [module.training for module in uncompiled(model).modules()]


# --- the check -----------------------------------------------------------------------------------

class Recorded:
    """The parts of a model, and what they were made of. `record(sample)` takes the model apart once more; `stage_of`:
    by the name of a part."""

    def __init__(self, parts: Parts, sample: Any, record: Callable[[Any], Parts], stage_of: Dict[str, int]):
        self._model, self._program = uncompiled(parts.model), parts.program
        self._record, self._sample = record, sample
        self._modules = _entered(self._model, self._program)
        self._reads_mode = False
        shared = _shared_by_stages(parts, stage_of)
        before = [_frozen(thing) for _, thing in shared]
        self._check_twice()
        self._check_shared(shared, before)
        self._numbers = _numbers_of(sample)
        self.take_state()

    def take_state(self) -> None:
        """What there is now is what the stages were made of."""
        self._state, self._parameters = _state_of(self._modules), _parameters_of(self._model)

    def _check_shared(self, shared: List[Tuple[str, Any]], before: List[Any]) -> None:
        """A cut does not see what one stage writes into an object that another one has."""
        for (name, thing), was in zip(shared, before):
            if _frozen(thing) != was:
                raise refusal(f"{name} is an object that modules of several stages have, and a forward changes it: "
                              "what one stage writes there never reaches another one; hand it on as a tensor, or keep "
                              "these modules on one stage (split_at, depth)")

    def _check_twice(self) -> None:
        """What is drawn, counted or read from data must not be written into steps; a mode may be."""
        for sample in _others(self._sample):
            said = difference(self._program, self._record(sample).program)
            if said is not None:
                raise refusal(f"the model does other steps each time that it runs ({said}): what it counts, draws "
                              "outside of PyTorch or reads from the data would be frozen as it is now; move that into "
                              "a module that is not taken apart (depth)")
        mode, modes = self._model.training, [(module, module.training) for module in self._model.modules()]
        try:
            self._model.train(not mode)
            said = difference(self._program, self._record(self._sample).program)
        except Exception:  # pylint: disable=broad-exception-caught  # whatever it does in that mode, it is not this
            said = "it cannot be taken apart in the other mode"
        finally:
            for module, training in modes:
                module.training = training
        self._reads_mode = said is not None

    def reads_mode(self) -> bool:
        """Whether train and eval mode have other steps, and not only other modules."""
        return self._reads_mode

    def check(self, call: Any) -> None:
        """Refuses a step whose program would be another one; `call` has one micro-batch's inputs, or nothing where this
        rank was given none."""
        parameters = _parameters_of(self._model)
        for name, (is_learned, kind, parameter) in parameters.items():
            was_learned, was_kind, was = self._parameters.get(name, (is_learned, kind, None))
            if (was_learned, was_kind) != (is_learned, kind):
                what = "type" if was_kind != kind else "requires_grad"
                raise refusal(f"{what} of {name} has changed since the stages were made, and ranks have agreed on "
                              "their messages and gradients by it: make the pipeline anew")
            if was is not parameter:
                raise refusal(f"{name} is another parameter than the one that the stages were made with, and would not "
                              "be among pipeline.parameters(): make the pipeline anew, or change the tensor in place "
                              "(copy_, load_state_dict without assign=True)")
        call = call if tree.tree_leaves(call) else self._sample
        state, numbers = _state_of(self._modules), _numbers_of(call)
        if state == self._state and numbers == self._numbers:
            return
        self._check_again(call, [name for name in {**self._state, **state} if state.get(name) != self._state.get(name)])
        self._state, self._numbers = _state_of(self._modules), numbers

    def _check_again(self, call: Any, names: List[str]) -> None:
        what = f"{names[0]} has changed" if names else "a number or another argument that is no tensor has changed"
        with attributes_kept(self._model):
            said = difference(self._program, self._record(call).program)
        if said is not None:
            raise refusal(f"{what} since the stages were made, and they have it as it was ({said}): make the pipeline "
                          "anew, or hand it to the model as a tensor")


def _others(sample: Any) -> List[Any]:
    """Samples as long with other data: the rows in another order and real numbers smaller, so that means and largest
    numbers are others in a single row too; and the first or the last row everywhere, since integers must stay what
    they can be."""
    def other(tensor: torch.Tensor) -> torch.Tensor:
        rolled = tensor.roll(1, 0) if tensor.dim() > 0 else tensor
        return rolled * 0.75 if tensor.is_floating_point() or tensor.is_complex() else rolled

    def repeated(row: slice) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda tensor: (tensor[row].expand_as(tensor).contiguous() if tensor.dim() > 0 and len(tensor) > 1
                               else tensor)

    changes = (other, repeated(slice(0, 1)), repeated(slice(-1, None)))
    return [tree.tree_map_only(torch.Tensor, change, sample) for change in changes]
