"""weir.torch.verify: the pipeline's losses, gradients and weights against those of the whole module on one process."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.utils import _pytree as tree

from ..capture.parts import left_as_it_was
from ..capture.recording import Call, as_call
from ..documents import Plan, Schedule
from .pipelines import Pipeline, pipeline
from ..capture.replay import Loss


@dataclasses.dataclass(frozen=True)
class Difference:
    """The largest of one kind: max |pipeline - module| / max |module| over a tensor's elements, and whose it is."""

    relative: float = 0.0
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `verify` found, the same on every rank."""

    steps: int
    compared: int  # parameters
    losses: Difference
    gradients: Difference
    weights: Difference
    buffers: Difference
    draws: bool  # whether the model draws random numbers, which the two runs cannot share
    whole_batch: Difference  # gradients of the first step against those of the loss of the whole batch at once
    rounding: float  # by how much these may differ as floats round
    not_compared: str  # why there is nothing of the whole batch, if so
    is_of_batches: bool  # whether they differ since the model's own loss is not made of single samples' alone

    @property
    def equal(self) -> bool:
        """Whether all was equal to the last bit; and the whole batch's gradients but for rounding."""
        return all(kind.relative == 0 for kind in self._kinds()) and self._is_of_whole_batch(0.0)

    def within(self, tolerance: float) -> bool:
        """Whether no relative difference is larger, of the whole batch's gradients none than rounding, either."""
        return all(kind.relative <= tolerance for kind in self._kinds()) and self._is_of_whole_batch(tolerance)

    def _kinds(self) -> tuple[Difference, ...]:
        return self.losses, self.gradients, self.weights, self.buffers

    def _is_of_whole_batch(self, tolerance: float) -> bool:
        return self.is_of_batches or self.whole_batch.relative <= max(tolerance, self.rounding)

    def __str__(self) -> str:
        of = f"of {self.compared} parameters after {self.steps} step{'s' if self.steps != 1 else ''}"
        away = (f"; gradients of the whole batch's loss are {self.whole_batch.relative:.1e} away "
                f"({self.whole_batch.name}): ")
        apart = "" if self.whole_batch.relative <= self.rounding else away + (
            "a part of the model's own loss is one of a whole batch, as a router's is, and a pipeline has it of "
            "micro-batches"
            if self.is_of_batches else
            "the loss is no mean over samples alike, as with padded labels; let loss_fn return a sum and its count")
        if self.not_compared:
            apart = f"; not compared with the whole batch's loss: {self.not_compared}"
        if all(kind.relative == 0 for kind in self._kinds()):
            return f"losses, gradients and weights {of} equal those of the module on one process, bit for bit{apart}"
        kinds = {"losses": self.losses, "gradients": self.gradients, "weights": self.weights, "buffers": self.buffers}
        parts = [f"{kind} {what.relative:.1e}" + (f" ({what.name})" if what.name and what.relative else "")
                 for kind, what in kinds.items()]
        why = ("; the model draws random numbers, such as dropout's, and the two runs have others: verify it in eval "
               "mode" if self.draws else "")
        return f"largest relative differences {of}: {', '.join(parts)}{why}{apart}"


def verify(model: Union[nn.Module, Callable[[], nn.Module]], plan: Union[Plan, str, dict], sample: Any,
           target: Any = None, loss_fn: Optional[Callable] = None, *, steps: int = 1,
           optimizer: Optional[Callable] = None, schedule: Union[Schedule, str, dict, None] = None,
           group: Optional[dist.ProcessGroup] = None, device: Any = None, chunk_spec: Any = None,
           target_chunk_spec: Any = None, between: Optional[Callable[[int], Any]] = None) -> Verification:
    """Trains a copy of the model by the plan, and another on each process alone, and compares.

    Every rank calls it, with the same arguments; rank 0's weights are taken. The module alone does the same
    micro-batches one after the other, each whole, so that gradients are equal to the bit where the schedule adds them
    in that order and does each backward whole; split backwards and replicas add in another order. In the first step
    gradients are compared with those of the whole batch's loss, too, unless the model draws random numbers.

    Args:
        model: the module, which is left as it is, or a function that makes it.
        sample, target: a whole iteration's inputs (a tensor, a tuple, or a dict of named ones) and targets.
        loss_fn: as pipeline takes it; a mean.
        steps: how many steps of the optimizer, each on the same batch.
        optimizer: optimizer(parameters) of both runs; plain SGD with a rate of 0.01 without it.
        chunk_spec, target_chunk_spec: as pipeline takes them.
        between: called with its number before each step: what it changes, such as a global that the forward reads, is
            seen by the module, and by the pipeline if it is not frozen in its stages.
    """
    whole = copy.deepcopy(model) if isinstance(model, nn.Module) else model()
    _same_weights(whole, group)
    make_optimizer = optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.01))
    args, kwargs = as_call(sample)
    has_loss = isinstance(loss_fn, nn.Module)
    loss_fn = copy.deepcopy(loss_fn) if has_loss else loss_fn
    if has_loss:
        _same_weights(loss_fn, group)
    pipe = pipeline(copy.deepcopy(whole), plan, loss_fn=copy.deepcopy(loss_fn) if has_loss else loss_fn,
                    schedule=schedule, group=group, device=device, chunk_spec=chunk_spec,
                    target_chunk_spec=target_chunk_spec)
    call = Call(args, kwargs)
    pipe.build(pipe.micro_batches_of(call)[0])
    whole.to(pipe.device)
    theirs = dict(whole.named_parameters())
    if has_loss:
        theirs.update((f"loss_fn.{name}", parameter) for name, parameter in loss_fn.to(pipe.device).named_parameters())
    of_pipe, of_whole = make_optimizer(list(pipe.parameters())), make_optimizer(list(theirs.values()))
    whole_batch, not_compared, is_of_batches = Difference(), "", False
    for step in range(steps):
        if between is not None:
            between(step)
        of_pipe.zero_grad()
        of_whole.zero_grad()
        losses = pipe.step(*args, target=target, **kwargs)
        state = torch.get_rng_state()
        alone = _whole_step(whole, pipe, call, target, loss_fn)
        draws = not torch.equal(state, torch.get_rng_state())
        if step == 0 and not draws:
            whole_batch, not_compared = _against_whole_batch(pipe, whole, theirs, call, target, loss_fn)
            is_of_batches = (loss_fn is None and whole_batch.relative > _rounding_of(pipe)
                             and not _is_weighted_mean(pipe, theirs[whole_batch.name], whole, call))
        if step == steps - 1:
            gradients = _worst(pipe, theirs, lambda tensor: tensor.grad)
        of_pipe.step()
        of_whole.step()
    mine = [alone[number] for number in pipe.micro_batches]
    found = (_difference(torch.stack(losses), torch.stack(mine), "") if losses else Difference(), gradients,
             _worst(pipe, theirs, lambda tensor: tensor.detach()), _worst_buffer(pipe, whole))
    found = (*found, whole_batch)
    return _agree(found, pipe, steps, draws, _rounding_of(pipe), not_compared, is_of_batches, group)


def _same_weights(whole: nn.Module, group: Optional[dist.ProcessGroup]) -> None:
    with torch.no_grad():
        for tensor in [*whole.parameters(), *whole.buffers()]:
            dist.broadcast(tensor, group=group, group_src=0)


def _whole_step(whole: nn.Module, pipe: Pipeline, call: Any, target: Any, loss_fn: Callable) -> list[torch.Tensor]:
    """The module's own iteration: a micro-batch after the other, gradients of the mean of all. Returns their losses."""
    calls, targets = _on_device(pipe, pipe.cut(call, target))
    losses, counts = [], []
    for (args, kwargs), wanted, share in zip(calls, targets, pipe.shares):
        loss, count = Loss(None, loss_fn, wanted).with_count(whole(*args, **kwargs))
        if count is None and share != 1.0:  # whether that is right the whole batch's loss will say
            loss = loss * share
        (loss * (1 / len(calls) if count is None else 1.0)).backward()
        losses.append(loss.detach())
        counts += [] if count is None else [count.item()]
    if not counts:
        return losses
    for module in [whole, loss_fn] if isinstance(loss_fn, nn.Module) else [whole]:
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(1 / sum(counts))
    return [loss / sum(counts) for loss in losses]


def _on_device(pipe: Pipeline, what: Any) -> Any:
    return tree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(pipe.device), what)


def _against_whole_batch(pipe: Pipeline, whole: nn.Module, theirs: dict[str, nn.Parameter], call: Any, target: Any,
                         loss_fn: Optional[Callable]) -> tuple[Difference, str]:
    """The pipeline's gradients against those of the loss of the whole batch at once. A model that counts in its
    forward, as batch norm does, runs micro-batches, and the loss takes all their outputs. Or why that cannot be."""
    kept = [(parameter, parameter.grad) for parameter in theirs.values()]
    for parameter, _ in kept:
        parameter.grad = None
    try:
        with left_as_it_was(whole):
            output = _whole_output(pipe, whole, call, loss_fn)
        if output is None:
            return Difference(), "the model counts in its forward, and returns what is of a micro-batch"
        Loss(None, loss_fn, _on_device(pipe, target))(output).backward()
        return _worst(pipe, theirs, lambda tensor: tensor.grad), ""
    except Exception as error:  # pylint: disable=broad-exception-caught  # a model may take no other batch
        return Difference(), str(error).strip().partition("\n")[0] or type(error).__name__
    finally:
        for parameter, grad in kept:
            parameter.grad = grad


def _whole_output(pipe: Pipeline, whole: nn.Module, call: Any, loss_fn: Optional[Callable]) -> Any:
    if not pipe.counts_in_forward:
        args, kwargs = as_call(_on_device(pipe, call))
        return whole(*args, **kwargs)
    outputs = [whole(*args, **kwargs) for args, kwargs in _on_device(pipe, pipe.cut(call, None)[0])]
    is_one = any(isinstance(leaf, torch.Tensor) and leaf.dim() == 0 for leaf in tree.tree_leaves(outputs[0]))
    return None if loss_fn is None or is_one else pipe.join(outputs)


def _is_weighted_mean(pipe: Pipeline, parameter: nn.Parameter, whole: nn.Module, call: Any) -> bool:
    """Whether the whole batch's gradient of a parameter is a sum of the micro-batches' with weights, as with padded
    labels: seen in some more random directions than there are weights."""
    calls, _ = _on_device(pipe, pipe.cut(call, None))
    directions = range(len(calls) + 4)

    def seen(of_one: Any) -> torch.Tensor:
        args, kwargs = as_call(of_one)
        with left_as_it_was(whole):
            loss = Loss(None, None, None)(whole(*args, **kwargs))
        gradient = torch.autograd.grad(loss, parameter)[0].double()
        return torch.stack([(torch.randn(gradient.shape, generator=torch.Generator().manual_seed(direction),
                                         dtype=gradient.dtype).to(gradient.device) * gradient).sum().cpu()
                            for direction in directions])

    parts, together = torch.stack([seen(of_one) for of_one in calls], 1), seen(_on_device(pipe, call))
    weights = torch.linalg.lstsq(parts, together[:, None]).solution
    return bool((parts @ weights - together[:, None]).abs().max() <= _rounding_of(pipe) * together.abs().max())


def _rounding_of(pipe: Pipeline) -> float:
    is_half = torch.is_autocast_enabled(pipe.device.type) or any(
        parameter.dtype in (torch.float16, torch.bfloat16) for parameter in pipe.parameters())
    return 5e-2 if is_half else 1e-3


def _difference(ours: Optional[torch.Tensor], theirs: Optional[torch.Tensor], name: str) -> Difference:
    if ours is None or theirs is None:  # a parameter that got no gradient has none in both, or zeros in one
        there = ours if ours is not None else theirs
        return Difference(float("inf") if there is not None and there.count_nonzero() else 0.0, name)
    wide = torch.complex128 if theirs.is_complex() or ours.is_complex() else torch.float64
    distance = (ours.to(wide) - theirs.to(wide)).abs().max().item() if ours.numel() else 0.0
    size = theirs.to(wide).abs().max().item() if ours.numel() else 0.0
    if distance == 0:
        return Difference(0.0, name)
    return Difference(distance / size if size > 0 and distance == distance else float("inf"), name)


def _largest(differences: list[Difference]) -> Difference:
    return max(differences, key=lambda difference: difference.relative, default=Difference())


def _worst(pipe: Pipeline, theirs: dict[str, nn.Parameter], what: Callable) -> Difference:
    return _largest([_difference(what(ours), what(theirs[name]), name) for name, ours in pipe.named_parameters()])


def _worst_buffer(pipe: Pipeline, whole: nn.Module) -> Difference:
    theirs = dict(whole.named_buffers())
    if pipe.replicas > 1:  # each has seen its own micro-batches only
        return Difference()
    return _largest([_difference(ours, theirs[name], name) for name, ours in pipe.named_buffers()])


def _agree(found: tuple[Difference, ...], pipe: Pipeline, steps: int, draws: bool, rounding: float,
           not_compared: str, is_of_batches: bool, group: Optional[dist.ProcessGroup]) -> Verification:
    """Of all ranks' findings the worst of each kind."""
    everyone: list[Any] = [None] * dist.get_world_size(group)
    names = [name for name, _ in pipe.named_parameters()]
    dist.all_gather_object(everyone, (found, (rounding, is_of_batches), names), group=group)
    *kinds, whole_batch = [_largest([of_rank[0][kind] for of_rank in everyone]) for kind in range(len(found))]
    compared = len({name for of_rank in everyone for name in of_rank[2]})
    return Verification(steps, compared, *kinds, draws, whole_batch, max(of_rank[1][0] for of_rank in everyone),
                        not_compared, any(of_rank[1][1] for of_rank in everyone))
