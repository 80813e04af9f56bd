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
        for parameter, stages in stages_of.items():
            for pipe in pipes:
                ranks = sorted({pipe.ranks[pipe.rank_of[stage]] for stage in stages})
                if len(ranks) > 1 and parameter.requires_grad:
                    group = groups_of([ranks])[0]
                    if rank in ranks:
                        self._shared.append((parameter, group))

    def add_up(self) -> None:
        """Called once a step's backwards are done: each copy gets the sum of all gradients."""
        for parameter, group in self._shared:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad, group=group)
