"""weir.torch.verify: the pipeline's losses, gradients and weights against those of the whole module on one process."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.utils import _pytree as tree

from ..capture.recording import as_call
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

    @property
    def equal(self) -> bool:
        """Whether all was equal to the last bit."""
        return all(kind.relative == 0 for kind in (self.losses, self.gradients, self.weights, self.buffers))

    def within(self, tolerance: float) -> bool:
        """Whether no relative difference is larger."""
        return all(kind.relative <= tolerance for kind in (self.losses, self.gradients, self.weights, self.buffers))

    def __str__(self) -> str:
        of = f"of {self.compared} parameters after {self.steps} step{'s' if self.steps != 1 else ''}"
        if self.equal:
            return f"losses, gradients and weights {of} equal those of the module on one process, bit for bit"
        kinds = {"losses": self.losses, "gradients": self.gradients, "weights": self.weights, "buffers": self.buffers}
        parts = [f"{kind} {what.relative:.1e}" + (f" ({what.name})" if what.name and what.relative else "")
                 for kind, what in kinds.items()]
        why = ("; the model draws random numbers, such as dropout's, and the two runs have others: verify it in eval "
               "mode" if self.draws else "")
        return f"largest relative differences {of}: {', '.join(parts)}{why}"


def verify(model: Union[nn.Module, Callable[[], nn.Module]], plan: Union[Plan, str, dict], sample: Any,
           target: Any = None, loss_fn: Optional[Callable] = None, *, steps: int = 1,
           optimizer: Optional[Callable] = None, schedule: Union[Schedule, str, dict, None] = None,
           group: Optional[dist.ProcessGroup] = None, device: Any = None) -> Verification:
    """Trains a copy of the model by the plan, and another on each process alone, and compares.

    Every rank calls it, with the same arguments; rank 0's weights are taken. The module alone does the same
    micro-batches one after the other, each whole, so that gradients are equal to the bit where the schedule adds them
    in that order and does each backward whole; split backwards and replicas add in another order.

    Args:
        model: the module, which is left as it is, or a function that makes it.
        sample, target: a whole iteration's inputs (a tensor, a tuple, or a dict of named ones) and targets.
        loss_fn: as pipeline takes it; a mean.
        steps: how many steps of the optimizer, each on the same batch.
        optimizer: optimizer(parameters) of both runs; plain SGD with a rate of 0.01 without it.
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
                    schedule=schedule, group=group, device=device)
    pipe.build(pipe.micro_batches_of(sample)[0])
    whole.to(pipe.device)
    theirs = dict(whole.named_parameters())
    if has_loss:
        theirs.update((f"loss_fn.{name}", parameter) for name, parameter in loss_fn.to(pipe.device).named_parameters())
    of_pipe, of_whole = make_optimizer(list(pipe.parameters())), make_optimizer(list(theirs.values()))
    for step in range(steps):
        of_pipe.zero_grad()
        of_whole.zero_grad()
        losses = pipe.step(*args, target=target, **kwargs)
        state = torch.get_rng_state()
        alone = _whole_step(whole, pipe, (args, kwargs), target, loss_fn)
        draws = not torch.equal(state, torch.get_rng_state())
        if step == steps - 1:
            gradients = _worst(pipe, theirs, lambda tensor: tensor.grad)
        of_pipe.step()
        of_whole.step()
    mine = [alone[number] for number in pipe.micro_batches]
    found = (_difference(torch.stack(losses), torch.stack(mine), "") if losses else Difference(), gradients,
             _worst(pipe, theirs, lambda tensor: tensor.detach()), _worst_buffer(pipe, whole))
    return _agree(found, pipe, steps, draws, group)


def _same_weights(whole: nn.Module, group: Optional[dist.ProcessGroup]) -> None:
    with torch.no_grad():
        for tensor in [*whole.parameters(), *whole.buffers()]:
            dist.broadcast(tensor, group=group, group_src=0)


def _whole_step(whole: nn.Module, pipe: Pipeline, call: Any, target: Any, loss_fn: Callable) -> list[torch.Tensor]:
    """The module's own iteration: a micro-batch after the other, gradients of the mean of all. Returns their losses."""
    on_device = tree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(pipe.device), (call, target))
    parts = pipe.split(on_device, "the sample and target")
    losses = []
    for (args, kwargs), wanted in parts:
        loss = Loss(None, loss_fn, wanted)(whole(*args, **kwargs))
        (loss * (1 / len(parts))).backward()
        losses.append(loss.detach())
    return losses


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


def _agree(found: tuple[Difference, ...], pipe: Pipeline, steps: int, draws: bool,
           group: Optional[dist.ProcessGroup]) -> Verification:
    """Of all ranks' findings the worst of each kind."""
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, (found, [name for name, _ in pipe.named_parameters()]), group=group)
    kinds = [_largest([of_rank[0][kind] for of_rank in everyone]) for kind in range(4)]
    compared = len({name for of_rank in everyone for name in of_rank[1]})
    return Verification(steps, compared, *kinds, draws)
