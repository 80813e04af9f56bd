"""An iteration's inputs and targets cut into micro-batches."""

from typing import Any, Optional

import torch
from torch.distributed.pipelining.microbatch import TensorChunkSpec, _Replicate
from torch.utils import _pytree as tree

from ..capture.errors import refusal
from ..capture.recording import Call, as_call

_WHOLE = None  # in place of a dimension: every micro-batch gets all of it


class Chunks:
    """How tensors are cut: along the first dimension, and inputs that have the sample's shape, which is one
    micro-batch's, go whole to each. One that is longer in another dimension alone may be cut there, or have longer
    rows: it is refused. A spec says otherwise: a dimension or None for each tensor, or for all below it, or what
    torch.distributed.pipelining has for these (TensorChunkSpec, _Replicate)."""

    def __init__(self, micro_batches: int, spec: Any = None, target_spec: Any = None):
        self._micro_batches, self._target_spec = micro_batches, target_spec
        self._spec = spec if spec is None or _is_end(spec) else as_call(spec)
        self._sample: Optional[tuple[list, Any]] = None
        self._found: Optional[tuple[Any, list]] = None  # dimensions, by the structure that they were found for

    def take_sample(self, sample: Any) -> None:
        """One micro-batch's inputs, to which those of all are compared."""
        self._sample = tree.tree_flatten(as_call(sample))

    def call_of(self, args: tuple, kwargs: dict) -> Call:
        """What a step is called with. A dict alone is of named arguments where the sample is one."""
        lone = args[0] if len(args) == 1 and not kwargs and isinstance(args[0], dict) else None
        if lone is not None and self._sample is not None and tree.tree_structure(((), lone)) == self._sample[1]:
            return Call((), dict(lone))
        return Call(args, kwargs)

    def inputs(self, call: Call) -> list[Call]:
        """Of each micro-batch."""
        leaves, shape = tree.tree_flatten(as_call(call))
        if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return [call] * self._micro_batches
        parts = self._cut(leaves, shape, self._dimensions_of(leaves, shape), "the inputs")
        return [Call(*part) for part in parts]

    def target(self, what: Any) -> list:
        leaves, shape = tree.tree_flatten(what)
        dimensions = _spread(0 if self._target_spec is None else self._target_spec, shape, "target_chunk_spec")
        return self._cut(leaves, shape, dimensions, "the target")

    def join(self, parts: list) -> Any:
        """Of each micro-batch's result, that of all: tensors one behind the other, what is no tensor the first's."""
        flat, shape = [tree.tree_leaves(part) for part in parts], tree.tree_structure(parts[0])
        joined = [(torch.stack(leaves) if leaves[0].dim() == 0 else torch.cat(leaves))
                  if isinstance(leaves[0], torch.Tensor) else leaves[0] for leaves in zip(*flat)]
        return tree.tree_unflatten(joined, shape)

    def _dimensions_of(self, leaves: list, shape: Any) -> list:
        if self._spec is not None:
            return _spread(self._spec, shape, "chunk_spec")
        if self._found is not None and self._found[0] == shape:
            return self._found[1]
        if self._sample is None or shape != self._sample[1]:
            return [0] * len(leaves)
        pairs = list(zip(leaves, self._sample[0]))
        dimensions = [self._dimension(leaf, one) for leaf, one in pairs]
        if self._micro_batches > 1 and all(dimension is _WHOLE for dimension in dimensions):
            raise refusal(f"the inputs of a step have the shapes of the sample, which is one micro-batch: give those "
                          f"of all {self._micro_batches}, or say how they are cut (chunk_spec=)")
        if all(dimension is _WHOLE or (one.dim() == leaf.dim() and
                                       leaf.shape[dimension] == self._micro_batches * one.shape[dimension])
               for (leaf, one), dimension in zip(pairs, dimensions)):
            self._found = shape, dimensions  # a later batch may be smaller
        return dimensions

    def _dimension(self, leaf: Any, one: Any) -> Optional[int]:
        if not isinstance(leaf, torch.Tensor):
            return _WHOLE
        if not isinstance(one, torch.Tensor) or leaf.dim() != one.dim():
            return 0
        if leaf.shape == one.shape:
            return _WHOLE if self._micro_batches > 1 else 0
        if self._micro_batches > 1 and leaf.dim() and leaf.shape[0] == one.shape[0]:
            raise refusal(f"the inputs of a step have a tensor of shape {tuple(leaf.shape)}, and the sample's is "
                          f"{tuple(one.shape)}, as long in the first dimension: say which one is cut (chunk_spec=)")
        return 0

    def _cut(self, leaves: list, shape: Any, dimensions: list, called: str) -> list:
        parts = [self._cut_one(leaf, dimension, called) for leaf, dimension in zip(leaves, dimensions)]
        return [tree.tree_unflatten([part[number] for part in parts], shape) for number in range(self._micro_batches)]

    def _cut_one(self, leaf: Any, dimension: Optional[int], called: str) -> list:
        count = self._micro_batches
        if not isinstance(leaf, torch.Tensor) or dimension is _WHOLE or leaf.dim() == 0:
            return [leaf] * count
        if not -leaf.dim() <= dimension < leaf.dim():
            raise refusal(f"{called} have a tensor of shape {tuple(leaf.shape)}, which has no dimension {dimension} to "
                          "be cut along")
        if leaf.shape[dimension] % count or leaf.shape[dimension] == 0:
            raise refusal(f"{called} of a step have a tensor of shape {tuple(leaf.shape)}, whose dimension {dimension} "
                          f"does not go into the plan's {count} micro-batches: give a multiple of {count}, leave the "
                          f"last batch out (drop_last=True), or fill it up with samples that the loss does not count")
        return list(leaf.chunk(count, dimension))


def _is_end(thing: Any) -> bool:
    return thing is None or isinstance(thing, (int, TensorChunkSpec, _Replicate)) or thing is _Replicate


def _spread(spec: Any, shape: Any, called: str) -> list:
    """A dimension for each leaf."""
    ends = tree._broadcast_to_and_flatten(spec, shape, is_leaf=_is_end)
    if ends is None or not all(_is_end(end) for end in ends):
        raise refusal(f"{called} is built in another way than what it is for: give a dimension, or None, for each "
                      "tensor")
    return [end.split_dim if isinstance(end, TensorChunkSpec) else end if isinstance(end, int) else _WHOLE
            for end in ends]
