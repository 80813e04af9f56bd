"""One stage of a pipeline as a module: its layers, and the care that PyTorch's runtime needs at a cut."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Optional

import torch
from torch import nn
from torch.utils import _pytree as tree
from torch.utils.checkpoint import checkpoint

from ..capture.parts import Attributes
from .flow import Run, StageFlow


class _Leave(torch.autograd.Function):
    """Outputs, all of one node of the graph.

    PyTorch's split backward finds a weight's gradient only where its way to the outputs meets that of an input. Here
    all ways meet. And between I and W it detaches outputs in place, which nothing that W reads may be: these are
    nobody's input.
    """

    @staticmethod
    def forward(ctx: Any, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(value.detach() for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return gradients


class _Enter(_Leave):
    """Received tensors, no longer leaves, so that they may be handed on. Their gradients leave as messages can be:

    in one piece of memory.
    """

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return tuple(None if gradient is None else gradient.contiguous() for gradient in gradients)


def _through(function: Any, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, those that want a gradient through a function of autograd."""
    through = list(tensors)
    places = [place for place, tensor in enumerate(tensors) if tensor.requires_grad]
    if places and torch.is_grad_enabled():
        for place, tensor in zip(places, function.apply(*(tensors[place] for place in places))):
            through[place] = tensor
    return through


def asking(what: Any) -> Any:
    """The same tensors, and each number that can have a gradient wants one; none of them is a leaf."""
    leaves, spec = tree.tree_flatten(what)
    leaves = [leaf.detach().requires_grad_(leaf.is_floating_point() or leaf.is_complex())
              if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for place, tensor in zip(places, _through(_Enter, [leaves[place] for place in places])):
        leaves[place] = tensor
    return tree.tree_unflatten(leaves, spec)


class RunModule(nn.Module):
    """Parts that are done together, and done again for their backward where the plan says so."""

    def __init__(self, run: Run, needed: Collection[int], changed: Mapping[str, Collection[int]]):
        super().__init__()
        self.parts, self.recomputed = run.parts, run.recomputed
        self.layers = nn.ModuleList(part.module for part in run.parts)
        self.reads, made = [], []
        for part in run.parts:
            self.reads += [value for value in part.inputs if value not in made and value not in self.reads]
            made += part.outputs
        self.makes = tuple(value for value in dict.fromkeys(made) if value in needed)
        self.needed = needed_behind([part.inputs for part in run.parts], self.makes)
        # What is run again must find its inputs as they were, so those that are changed in place are copied first.
        self.changing: dict[tuple, frozenset[str]] = {}  # buffers that a forward changes, by its modules' modes
        self.copied = {value for part in run.parts for value in changed[part.name]} if run.recomputed else set()

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.recomputed and torch.is_grad_enabled():
            remembered = _Remembered(self.layers, self.changing)
            contexts = (remembered, _AsBefore(remembered))
            return checkpoint(self.once, *tensors, use_reentrant=False, context_fn=lambda: contexts)
        return self.once(*tensors)

    def once(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        at = {value: tensor.clone() if value in self.copied else tensor for value, tensor in zip(self.reads, tensors)}
        del tensors
        for part, layer, needed in zip(self.parts, self.layers, self.needed):
            at.update(zip(part.outputs, layer(*(at[value] for value in part.inputs))))
            at = {value: at[value] for value in at if value in needed}
        return tuple(at[value] for value in self.makes)


_again = 0  # how many recomputations are under way


def is_again() -> bool:
    """Whether what runs now has run before in this step, and is recomputed."""
    return _again > 0


class _State:
    """The attributes that modules have at a time, and some of their buffers, by name."""

    def __init__(self, modules: nn.Module, names: Collection[str]):
        self._attributes = [Attributes(module) for module in modules.modules()]
        self._buffers = {name: (buffer, buffer.detach().clone()) for name, buffer in modules.named_buffers()
                         if name in names}

    def put_back(self) -> None:
        for of_module in self._attributes:
            of_module.put_back()
        with torch.no_grad():
            for buffer, value in self._buffers.values():
                buffer.copy_(value)

    def changed(self) -> frozenset[str]:
        """Names of buffers that are not what they were, and only these are kept from now on."""
        self._buffers = {name: both for name, both in self._buffers.items() if not torch.equal(*both)}
        return frozenset(self._buffers)


class _Remembered:
    """Around the first run: what its forward found. Which buffers it changes is seen once for each mode."""

    def __init__(self, modules: nn.Module, changing: dict[tuple, frozenset[str]]):
        self.modules, self.changing = modules, changing
        self._modes = tuple(module.training for module in modules.modules())

    def __enter__(self) -> None:
        everything = [name for name, _ in self.modules.named_buffers()]
        self.state = _State(self.modules, self.changing.get(self._modes, everything))

    def __exit__(self, *_: Any) -> None:
        if self._modes not in self.changing:
            self.changing[self._modes] = self.state.changed()

    def now(self) -> _State:
        return _State(self.modules, self.changing[self._modes])


class _AsBefore:
    """What is run again finds running means, counts and the like as they were, and leaves them as they are.

    It can be entered again and again: PyTorch's split backward recomputes for I, and once more for W.
    """

    def __init__(self, remembered: _Remembered):
        self._remembered = remembered
        self._now: list[_State] = []

    def __enter__(self) -> None:
        global _again  # pylint: disable=global-statement
        _again += 1
        self._now.append(self._remembered.now())
        self._remembered.state.put_back()

    def __exit__(self, *_: Any) -> None:
        global _again  # pylint: disable=global-statement
        _again -= 1
        self._now.pop().put_back()


def needed_behind(reads: Sequence[Collection[int]], returned: Collection[int]) -> list[set[int]]:
    """For each of these in turn, what those behind it read and what is returned in the end."""
    needed = [set(returned)]
    for of_one in reversed(reads):
        needed.insert(0, needed[0].union(of_one))
    return needed[1:]


class StageModule(nn.Module):
    """A stage of a pipeline: takes the tensors that cross the cut in front, returns those that cross the one behind."""

    def __init__(self, flow: StageFlow, is_last: bool, splits_backward: bool, changed: Mapping[str, Collection[int]]):
        super().__init__()
        self.number, self.is_last = flow.number, is_last
        self.received, self.returned = flow.received, flow.returned
        self.splits_backward = splits_backward
        self.needed = needed_behind([[value for part in run.parts for value in part.inputs] for run in flow.runs],
                                    flow.returned)
        self.runs = nn.ModuleList(RunModule(run, behind, changed) for run, behind in zip(flow.runs, self.needed))
        self.shown: Optional[Callable] = None  # is called with what an evaluation makes, and the graph of its last run

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        at = dict(zip(self.received, _through(_Enter, tensors)))
        del tensors
        for run, needed in zip(self.runs, self.needed):
            read = [at[value] for value in run.reads]
            if self.shown is not None and run is self.runs[-1]:
                with torch.enable_grad():
                    at.update(zip(run.makes, run.once(*asking(read))))
            else:
                at.update(zip(run.makes, run(*read)))
            at = {value: at[value] for value in at if value in needed}
        if self.shown is not None:
            self.shown([at[value] for value in self.returned])
            at = {value: tensor.detach() for value, tensor in at.items()}
        outputs = [at[value] if self.is_last else at[value].contiguous() for value in self.returned]
        if not self.splits_backward:
            return tuple(outputs)
        # Between I and W PyTorch detaches in place what needs no gradient, too, and cannot where that is a view.
        return tuple(_through(_Leave, [tensor.clone() if tensor._is_view() and not tensor.requires_grad else tensor
                                       for tensor in outputs]))
