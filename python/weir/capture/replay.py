"""The parts of a model, run by themselves: each from inputs that are cut off from what made them."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch.autograd.graph import get_gradient_edge
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

from .errors import refusal
from .parts import Part, Parts


@dataclass
class Run:
    """One part after its forward."""

    part: Part
    leaves: List[torch.Tensor]  # its inputs, cut off
    outputs: Tuple[torch.Tensor, ...]
    loss: Optional[torch.Tensor] = None  # of the last part


class Loss:
    """What is called backward: of loss_fn, or what the model returns."""

    def __init__(self, parts: Parts, loss_fn: Optional[Callable], target: Any, is_trained: bool = True):
        self.parts, self.loss_fn, self.target, self.is_trained = parts, loss_fn, target, is_trained

    def __call__(self, result: Any) -> torch.Tensor:
        total, count = self.with_count(result)
        return total if count is None else total / count

    def with_count(self, result: Any) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """The loss; or a sum and, of what it is the sum, the number, where loss_fn returns both."""
        count = None
        if self.loss_fn is not None:
            loss = self.loss_fn(result) if self.target is None else self.loss_fn(result, self.target)
            what = "loss_fn returns"
            if isinstance(loss, tuple) and len(loss) == 2:
                loss, count = loss[0], torch.as_tensor(loss[1])
        else:
            loss, what = getattr(result, "loss", result), "the model returns"
        if count is not None and (count.numel() != 1 or count.is_floating_point() or count.is_complex()
                                  or count.dtype == torch.bool):
            raise refusal(f"loss_fn returns a loss and {said(count)}, which is no whole number: return a loss alone, or a "
                          "sum and how many it is the sum of")
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise refusal(f"{what} {said(loss)}, and no loss; hand loss_fn=... that makes one number of the model's "
                          "result (and of target, if one is given), or a sum and its count")
        if self.is_trained and torch.is_grad_enabled() and not loss.requires_grad:
            raise refusal(f"the loss needs no gradient, so there is no backward to measure; see that parameters have "
                          "requires_grad, and that nothing is under torch.no_grad()")
        return loss, count


def said(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"a tensor of shape {tuple(thing.shape)}"
    return "nothing" if thing is None else f"an object of class {type(thing).__name__}"


class Replay:
    """Forwards and backwards of the parts, as a pipeline with a stage for each would run them."""

    def __init__(self, parts: Parts, sample: Any, loss: Loss):
        self.parts = parts
        self.loss = loss
        self.sample = dict(zip(parts.inputs, parts.tensors_of(sample)))
        self.given: Dict[int, torch.Tensor] = {}  # values that parts read and none of these makes
        self.changes = [any(before in part.inputs for step in part.steps for before, _ in step.changed)
                        for part in parts]
        self.asking: Set[int] = set()  # values that need a gradient
        self.find_asking()

    def find_asking(self) -> None:
        values = dict(self.sample)
        for place, part in enumerate(self.parts):
            leaves = self.cut_off(place, values)
            outputs, _ = self.call(place, self.inputs_of(place, leaves))
            values.update(zip(part.outputs, outputs))
            self.asking.update(value for value, out in zip(part.outputs, outputs) if out.requires_grad)

    def cut_off(self, place: int, values: Dict[int, torch.Tensor]) -> List[torch.Tensor]:
        return [values[value].detach().requires_grad_(value in self.asking) for value in self.parts[place].inputs]

    def inputs_of(self, place: int, leaves: List[torch.Tensor]) -> List[torch.Tensor]:
        """A leaf cannot be changed in place, so a part that does so is given copies."""
        return [leaf.clone() for leaf in leaves] if self.changes[place] else leaves

    def call(self, place: int, inputs: List[torch.Tensor]) -> Tuple[Tuple[torch.Tensor, ...], Optional[torch.Tensor]]:
        """F of a part; the last one's includes the loss."""
        outputs = self.parts[place].module(*inputs)
        if place < len(self.parts) - 1:
            return outputs, None
        return outputs, self.loss(self.parts.result_of(dict(zip(self.parts[place].outputs, outputs))))

    def forward(self, around: Callable = lambda place, work: work()) -> List[Run]:
        """F of all parts; `around(place, work)` calls each."""
        values, runs = {**self.sample, **self.given}, []
        torch.clear_autocast_cache()  # casts of weights are made once per micro-batch
        for place, part in enumerate(self.parts):
            leaves = self.cut_off(place, values)
            inputs = self.inputs_of(place, leaves)
            outputs, loss = around(place, lambda: self.call(place, inputs))
            values.update(zip(part.outputs, outputs))
            runs.append(Run(part, leaves, outputs, loss))
        return runs

    def roots_of(self, run: Run, slopes: Dict[int, torch.Tensor]) -> list:
        """What a part's backward begins with: its loss, or its outputs and their gradients."""
        return [(run.loss, None)] if run.loss is not None else [
            (out, slopes[value]) for value, out in zip(run.part.outputs, run.outputs)
            if out.requires_grad and slopes.get(value) is not None]

    def backward(self, runs: List[Run], work: Callable[[int, Run, list], None],
                 renew: Callable[[int, Run], None] = lambda place, run: None) -> None:
        """`work(place, run, roots)` from the last part to the first; roots are (output, its gradient). `renew` may run
        the part again before."""
        slopes: Dict[int, torch.Tensor] = {}
        for place in reversed(range(len(runs))):
            run = runs[place]
            renew(place, run)
            roots = self.roots_of(run, slopes)
            if roots:
                work(place, run, roots)
            for value, leaf in zip(run.part.inputs, run.leaves):
                if leaf.grad is not None:
                    slopes[value] = leaf.grad if value not in slopes else slopes[value] + leaf.grad
                    leaf.grad = None


class PartReplay(Replay):
    """The same of one part alone, of a model that is nowhere as a whole: what other parts make is given, gradients of what
    it hands on are random numbers."""

    def __init__(self, parts: Parts, place: int, given: Dict[int, torch.Tensor], asking: Set[int], sample: Any, loss: Loss):
        # pylint: disable=super-init-not-called  # which runs all parts
        part = parts[place]
        self.parts, self.whole, self.loss, self.asking = [part], parts, loss, asking
        self.is_last = place == len(parts) - 1
        of_sample = dict(zip(parts.inputs, parts.tensors_of(sample)))
        self.sample = {value: tensor for value, tensor in of_sample.items() if value in part.inputs}
        self.given = {value: given[value] for value in part.inputs if value not in of_sample}
        self.changes = [any(before in part.inputs for step in part.steps for before, _ in step.changed)]

    def call(self, place: int, inputs: List[torch.Tensor]) -> Tuple[Tuple[torch.Tensor, ...], Optional[torch.Tensor]]:
        outputs = self.parts[place].module(*inputs)
        if not self.is_last:
            return outputs, None
        return outputs, self.loss(self.whole.result_of(dict(zip(self.parts[place].outputs, outputs))))

    def roots_of(self, run: Run, slopes: Dict[int, torch.Tensor]) -> list:
        if run.loss is not None:
            return [(run.loss, None)]
        return [(out, slopes.setdefault(value, torch.randn_like(out)))
                for value, out in zip(run.part.outputs, run.outputs) if out.requires_grad]

    def outputs(self) -> Dict[int, torch.Tensor]:
        """What the part makes. What of it needs a gradient is asked of those that read it."""
        run = self.forward()[0]
        self.asking.update(value for value, out in zip(run.part.outputs, run.outputs) if out.requires_grad)
        return {value: out.detach() for value, out in zip(run.part.outputs, run.outputs)}


def takes_gradient(run: Run) -> bool:
    """Whether any input of it needs a gradient; PyTorch's first stage, which has none, does all of B as its W."""
    return any(leaf.requires_grad for leaf in run.leaves)


def whole_backward(roots: list, keep_graph: bool = False) -> None:
    """B, as PyTorch's stages do it."""
    torch.autograd.backward([root for root, _ in roots], grad_tensors=[slope for _, slope in roots],
                            retain_graph=keep_graph)


def input_backward(run: Run, roots: list) -> list:
    """I, as PyTorch's stages do it; what it returns is for weight_backward."""
    outputs = [get_gradient_edge(root) if root._is_view() else root for root, _ in roots]
    slopes = None if run.loss is not None else [slope for _, slope in roots]
    return stage_backward_input(outputs, slopes, run.leaves, run.part.module.parameters())[1]


def weight_backward(run: Run, groups: list) -> None:
    """W, likewise."""
    stage_backward_weight(run.part.module.parameters(), groups)


def trained_parameters(run: Run) -> Iterator[torch.nn.Parameter]:
    return (parameter for parameter in run.part.module.parameters() if parameter.requires_grad)
