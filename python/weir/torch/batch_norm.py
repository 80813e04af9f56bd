"""Deferred batch norm: running means and variances of a whole iteration, as torchgpipe has them.

Each micro-batch is normalised by its own mean and variance, as in any pipeline. But running statistics are updated
once a step, by mean and variance over all samples of the iteration, on whatever stages and replicas a module is:

    n = sum of counts     mean = sum(x) / n     var = (sum(x^2) - n mean^2) / (n - 1)
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm

from .flow import StageFlow
from .pipes import Pipe
from .stage_module import is_again


def batch_norms_of(cut: Sequence[StageFlow]) -> dict[_BatchNorm, set[int]]:
    """The batch norms that keep running statistics, with the stages that have them."""
    found: dict[_BatchNorm, set[int]] = {}
    for number, stage in enumerate(cut):
        for module in (module for run in stage.runs for part in run.parts for module in part.module.modules()):
            if isinstance(module, _BatchNorm) and module.running_mean is not None:
                found.setdefault(module, set()).add(number)
    return found


class DeferredBatchNorms:
    """Those of this rank. Every rank makes it, since ranks that hold the same module meet in a process group."""

    def __init__(self, cut: Sequence[StageFlow], pipes: Sequence[Pipe], rank: int, groups_of: Callable[..., list]):
        self._mine: list[tuple[_BatchNorm, Any]] = []
        for module, stages in batch_norms_of(cut).items():
            ranks = sorted({pipe.ranks[pipe.rank_of[stage]] for pipe in pipes for stage in stages})
            group = groups_of([ranks])[0] if len(ranks) > 1 else None
            if rank in ranks:
                self._mine.append((module, group))

    @contextlib.contextmanager
    def of_this_step(self) -> Iterator[None]:
        """Around a step."""
        live = [(module, group) for module, group in self._mine if module.training]
        before = {module: [buffer.clone() for buffer in _buffers(module)] for module, _ in live}
        sums = {module: torch.zeros(3, module.num_features, dtype=torch.float64, device=module.running_mean.device)
                for module, _ in live}
        hooks = [module.register_forward_pre_hook(lambda module, args: _add(sums[module], args[0]))
                 for module, _ in live]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            with torch.no_grad():
                for module, values in before.items():
                    for buffer, value in zip(_buffers(module), values):
                        buffer.copy_(value)
        with torch.no_grad():
            for module, group in live:
                if group is not None:
                    dist.all_reduce(sums[module], group=group)
                _update(module, sums[module])


def _buffers(module: _BatchNorm) -> list[torch.Tensor]:
    return [module.running_mean, module.running_var, module.num_batches_tracked]


def _add(sums: torch.Tensor, x: torch.Tensor) -> None:
    """Of each channel: how many, their sum and that of their squares."""
    if is_again():
        return
    with torch.no_grad():
        wide = x.detach().double().transpose(0, 1).flatten(1) if x.dim() > 1 else x.detach().double()[None]
        sums += torch.stack([torch.full_like(sums[0], wide.shape[1]), wide.sum(1), wide.square().sum(1)])


def _update(module: _BatchNorm, sums: torch.Tensor) -> None:
    count, total, squares = sums
    if not bool(count[0] > 0):
        return
    mean = total / count
    variance = (squares - count * mean.square()).clamp_min(0) / (count - 1).clamp_min(1)
    module.num_batches_tracked += 1
    share = module.momentum if module.momentum is not None else 1 / float(module.num_batches_tracked)
    module.running_mean.lerp_(mean.to(module.running_mean.dtype), share)
    module.running_var.lerp_(variance.to(module.running_var.dtype), share)
