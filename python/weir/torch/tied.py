"""Tied parameters on several stages: each holds a copy, and the copies' gradients are added up."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .flow import StageFlow
from .pipes import Pipe


class TiedGradients:
    """The parameters of this rank that others of its pipe hold too. Equal copies and equal sums stay equal."""

    def __init__(self, cut: Sequence[StageFlow], pipes: Sequence[Pipe], rank: int, groups_of: Callable[..., list]):
        stages_of: dict[torch.nn.Parameter, set[int]] = {}
        for number, stage in enumerate(cut):
            for run in stage.runs:
                for part in run.parts:
                    for parameter in part.module.parameters():
                        stages_of.setdefault(parameter, set()).add(number)
        self._shared: list[tuple[torch.nn.Parameter, Any]] = []
        self._of_others: set[torch.nn.Parameter] = set()  # copies of what a rank in front of this one has
        for parameter, stages in stages_of.items():
            for pipe in pipes:
                ranks = sorted({pipe.ranks[pipe.rank_of[stage]] for stage in stages})
                if len(ranks) > 1 and parameter.requires_grad:
                    group = groups_of([ranks])[0]
                    if rank in ranks:
                        self._shared.append((parameter, group))
                        self._of_others.update([parameter] if rank != ranks[0] else [])

        self._make_equal()

    def _make_equal(self) -> None:
        """Copies begin as the first rank has them, as DDP's replicas do: ranks may have been seeded apart."""
        with torch.no_grad():
            for parameter, group in self._shared:
                dist.broadcast(parameter, group=group, group_src=0)

    def is_counted(self, parameter: torch.nn.Parameter) -> bool:
        """Of all copies one is, where a sum is over all parameters of the model."""
        return parameter not in self._of_others

    def add_up(self) -> None:
        """Behind a step's backwards: each copy gets the sum of the gradients of all."""
        for parameter, group in self._shared:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad, group=group)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Those of this rank."""
        return [parameter for parameter, _ in self._shared]
