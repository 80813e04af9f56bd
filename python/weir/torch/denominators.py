"""By what a micro-batch's loss is divided, so that the mean over an iteration is that over all it counts.

A cross entropy is the mean over the labels that are not ignored. Of two micro-batches with 3 and 5 such labels the mean
of both means is not the mean over all 8:

    (a / 3 + b / 5) / 2        where the whole batch's loss is        (a + b) / 8

The loss's graph says by what it was divided: a cross entropy by its labels or by the sum of their weights, a masked
mean by the sum of its mask, a mean by the number of its elements. Each loss is weighed by that. Where no weight is
right, as of a loss with parts that are divided by numbers in other proportions, the step is refused.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import torch

from ..capture.errors import refusal

Number = Union[float, torch.Tensor]

# Nodes that change no sum.
_SAME = {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0", "SqueezeBackward0",
         "SqueezeBackward1", "SqueezeBackward2", "ToCopyBackward0", "CloneBackward0", "AliasBackward0",
         "PermuteBackward0", "TransposeBackward0", "TBackward0"}
_JOINED = {"StackBackward0", "CatBackward0"}
_ADDED = {"AddBackward0", "SubBackward0", "WhereBackward0"}
_SUMS = {"SumBackward0", "SumBackward1"}
_MEANS = {"MeanBackward0", "MeanBackward1"}
_CROSS_ENTROPIES = {"NllLossBackward0", "NllLoss2DBackward0"}
_MOST_NODES, _MOST_TERMS = 500, 12
_ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class Term:
    """A sum of which a loss is made, divided by a number and multiplied by another. `by_labels`: the first is that of a
    cross entropy, whose labels may have weights."""

    divided: Number = 1.0
    times: Number = 1.0
    by_labels: bool = False


@dataclasses.dataclass
class Denominators:
    """Of a loss. `complete`: whether it has no other parts."""

    terms: list[Term]
    complete: bool


@torch.no_grad()
def denominators_of(loss: torch.Tensor) -> Denominators:
    """Found in the graph of a loss, which has not gone backward yet."""
    if loss.grad_fn is None:
        return Denominators([], False)
    found = Denominators([], True)
    todo = [(loss.grad_fn, loss.output_nr, Term(), False)]
    for _ in range(_MOST_NODES):
        if todo:
            try:
                todo += _in_front(found, *todo.pop())
            except (RuntimeError, AttributeError):  # a saved tensor that has changed, or a node of another release
                found.complete = False
    found.complete = found.complete and not todo and len(found.terms) <= _MOST_TERMS
    found.terms = found.terms[:_MOST_TERMS]
    return found


def _in_front(found: Denominators, node: Any, place: int, term: Term, is_summed: bool) -> list:
    """What is in front of a node, or a term more. `is_summed`: all elements are summed up behind it, so that what is no
    division may be anything."""
    if node is None:
        return []
    name, edges = node.name(), node.next_functions
    if name in _SAME or name == "NegBackward0" or name == "_LeaveBackward":
        return [(*edges[place if name == "_LeaveBackward" else 0], term, is_summed)]
    if name in _JOINED or (name in _ADDED and not is_summed):
        return [(*edge, term, is_summed) for edge in edges]
    if name in _SUMS:
        return [(*edges[0], term, True)]
    if name in _MEANS:
        return [(*edges[0], dataclasses.replace(term, divided=term.divided * _elements(node)), True)]
    scaled = _scaled(node, term)
    if scaled is not None:
        return [(*edge, one, is_summed) for one in scaled for edge in edges]
    if getattr(node, "_saved_reduction", None) == 1:
        by_labels = name in _CROSS_ENTROPIES
        count = _labels(node) if by_labels else node._saved_self.numel()
        found.terms.append(dataclasses.replace(term, divided=term.divided * count, by_labels=by_labels))
    elif is_summed or hasattr(node, "_saved_reduction") or _is_parameter(node):
        found.terms.append(term)
    else:
        found.complete = False
    return []


def _is_parameter(node: Any) -> bool:
    return isinstance(getattr(node, "variable", None), torch.nn.Parameter)


def _scaled(node: Any, term: Term) -> Optional[list[Term]]:
    """The term in front of a product with one number, or a quotient by one, that needs no gradient: none in front of a
    zero. None of another node."""
    name, edges = node.name(), node.next_functions
    if name[:-1] not in ("MulBackward", "DivBackward") or sum(edge[0] is not None for edge in edges) != 1:
        return None
    is_first = edges[0][0] is not None
    if not is_first and name.startswith("Div"):
        return None
    other = node._saved_other if is_first else node._saved_self
    if isinstance(other, torch.Tensor):
        if other.numel() != 1:
            return None
        other = other.detach().reshape(()).double()
    if name.startswith("Div"):
        return [dataclasses.replace(term, divided=term.divided * other)]
    is_nothing = not other if isinstance(other, (int, float)) else other.is_cpu and not other.item()
    return [] if is_nothing else [dataclasses.replace(term, times=term.times * other)]


def _elements(node: Any) -> int:
    """How many elements a mean takes for each of its own."""
    if node.name() == "MeanBackward0":
        return node._saved_self_sym_numel
    sizes, count = node._saved_self_sym_sizes, 1
    for dimension in node._saved_dim or range(len(sizes)):
        count *= sizes[_signed(dimension)]
    return count


def _labels(node: Any) -> torch.Tensor:
    """How many labels a cross entropy counts, or the sum of their weights."""
    target, weight = node._saved_target, node._saved_weight
    counted = target != _signed(node._saved_ignore_index)
    if weight is None:
        return counted.sum().double()
    return weight.double()[target.where(counted, 0)].where(counted, 0.0).sum()


def _signed(number: int) -> int:
    """Autograd shows whole numbers as if they had no sign."""
    return number - 2 ** 64 if number >= 2 ** 63 else number


def is_mean(loss: torch.Tensor) -> bool:
    """Whether a loss is one mean and nothing else."""
    node = loss.grad_fn
    while node is not None and node.name() in _SAME:
        node = node.next_functions[0][0]
    return node is not None and (node.name() == "MeanBackward0" or getattr(node, "_saved_reduction", 0) == 1)


class Shares:
    """What each micro-batch's loss counts for in the mean of an iteration: found anew in each step.

    Each loss is weighed by its denominator over that of the first, and all gradients behind the step by what makes the
    weights' mean 1, so that equal denominators change no bit.
    """

    def __init__(self, micro_batches: int, first: int, share: Callable[[Number], Number]):
        """`first`: the number of the micro-batch whose denominator all replicas take for one; share(number) is that of
        the replica that has it."""
        self._count, self._first, self._share = micro_batches, first, share
        self._base: Number = 1.0
        self._found: list[Denominators] = []
        self.of: list[float] = [1.0] * micro_batches  # in the last step
        self.differ = False  # whether they ever did

    def begin(self) -> None:
        self._found = []

    def weight(self, loss: torch.Tensor) -> Number:
        """Of the loss of this rank's next micro-batch, before it goes backward."""
        found = self._took(denominators_of(loss))
        weight = found.terms[0].divided / self._base if found.terms else 1.0
        return weight.to(loss.device, loss.dtype) if isinstance(weight, torch.Tensor) else weight

    def pass_over(self) -> None:
        """Of a micro-batch that has no loss, since it failed: replicas may wait for what the first divides by."""
        self._took(Denominators([], False))

    def _took(self, found: Denominators) -> Denominators:
        if not self._found:
            self._base = self._share(found.terms[0].divided if found.terms else 1.0)
        self._found.append(found)
        return found

    def rows(self, numbers: Sequence[int]) -> torch.Tensor:
        """What all ranks need to know, to be added up over them: of each micro-batch its terms, how many these are, and
        whether there are other parts."""
        table = torch.zeros(self._count, 3 * _MOST_TERMS + 2, dtype=torch.float64)
        cells, numbers_there = [], []
        for number, found in zip(numbers, self._found):
            for place, term in enumerate(found.terms):
                for column, what in enumerate((term.divided, term.times, term.by_labels)):
                    cells.append((number, column * _MOST_TERMS + place))
                    numbers_there.append(what)
            table[number, -2:] = torch.tensor([len(found.terms), not found.complete])
        tensors = [number for number in numbers_there if isinstance(number, torch.Tensor)]
        device = next((tensor.device for tensor in tensors if not tensor.is_cpu), torch.device("cpu"))
        values = iter(torch.stack([tensor.to(device) for tensor in tensors]).tolist() if tensors else ())  # waits once
        for cell, number in zip(cells, numbers_there):
            table[cell] = next(values) if isinstance(number, torch.Tensor) else number
        return table

    @property
    def are_of_data(self) -> bool:
        """Whether any denominator is a number of the data, and not of shapes alone."""
        return any(isinstance(term.divided, torch.Tensor) for found in self._found for term in found.terms)

    def settle(self, table: torch.Tensor) -> float:
        """Of all ranks' rows: what gradients are multiplied with. Raises a WeirError where no weights are right."""
        self.of = [1.0] * self._count
        terms, firsts = table[:, -2], table[:, 0]
        if not terms.any():
            return 1.0
        if not _all_divide_alike(table):
            _check_weights(table)
        if not terms.all():  # those that are known divide alike
            return 1.0
        mean = firsts.mean().item()
        self.of = (firsts / mean).tolist()
        self.differ = self.differ or any(share != 1.0 for share in self.of)
        return firsts[self._first].item() / mean


def _is_near(numbers: torch.Tensor, to: torch.Tensor) -> bool:
    return bool(((numbers - to).abs() <= _ROUNDING * to.abs()).all())


def _all_divide_alike(table: torch.Tensor) -> bool:
    """Whether all micro-batches divide by the same, as far as is known, and by something."""
    if not table[0, -2]:
        return False
    columns = [table[table[:, -2] > place, place] for place in range(_MOST_TERMS)]
    return all(_is_near(column, column[:1]) for column in columns if len(column)) and bool(columns[0].all())


def _check_weights(table: torch.Tensor) -> None:
    """Whether one weight for each micro-batch makes the mean over all."""
    count, firsts = int(table[0, -2]), table[:, :1]
    divided, times, by_labels = (table[:, at * _MOST_TERMS:at * _MOST_TERMS + count] for at in range(3))
    if count and not (torch.isfinite(firsts) & (firsts != 0)).all():
        raise refusal("the loss of a micro-batch is the mean over nothing, as where all of its labels are ignored: let "
                      "loss_fn return a sum and its count")
    is_alike = count > 0 and bool((table[:, -2] == count).all()) and not table[:, -1].any()
    is_whole = (divided - divided.round()).abs() <= _ROUNDING * divided.abs()
    is_counted = is_alike and bool((by_labels.any(1, keepdim=True) | is_whole).all())
    if not (is_counted and _is_near(divided / firsts, (divided / firsts)[:1]) and _is_near(times, times[:1])):
        raise refusal(f"losses of micro-batches are divided by {firsts.min():g} to {firsts.max():g}, as by the number "
                      "of labels that are not ignored, and no weights make their mean that of the whole batch"
                      f"{'' if is_counted else ', as a loss may have other parts'}: divide by one number (of "
                      "transformers: num_items_in_batch=, a tensor of all labels that count over the micro-batches), "
                      "let loss_fn return a sum and its count, or take the mean of micro-batches as it is "
                      "(average=\"micro-batches\")")
