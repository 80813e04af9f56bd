"""Refusals that are the same on every rank, and what ranks must have alike before they exchange messages."""

from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
import torch.distributed as dist

from ..capture.errors import refusal
from ..library import WeirError

_NONE = -(2 ** 40)  # of a number that a rank has no say in


class Agreement:
    """Between all ranks of a group, over a process group on CPUs, so that no GPU is waited for."""

    def __init__(self, group: Optional[dist.ProcessGroup]):
        members = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
        is_on_cpu = "gloo" in dist.get_backend(group)
        self.group = group if is_on_cpu else dist.new_group(members, backend="gloo")

    def on(self, work: Callable[[], Any], numbers: Callable[[Any], Sequence[Optional[int]]] = lambda made: (),
           called: Sequence[str] = ()) -> tuple[Any, list[Optional[int]]]:
        """What work() makes on this rank. Where it fails on any, all ranks raise what the first of these ranks says.

        `numbers(made)`: what must be the same on all ranks, each `called` so; None where this rank does not know.

        Returns:
            what was made, and the numbers, known on every rank if they are on any.
        """
        made, failed = None, None
        mine: list[Optional[int]] = [None] * len(called)
        try:
            made = work()
            mine = list(numbers(made))
        except Exception as error:  # pylint: disable=broad-exception-caught
            failed = error
        highest = [_NONE if number is None else number for number in mine]
        lowest = [_NONE if number is None else -number for number in mine]
        both = torch.tensor([int(failed is not None), *highest, *lowest], dtype=torch.int64)
        dist.all_reduce(both, op=dist.ReduceOp.MAX, group=self.group)
        if both[0]:
            self._raise(failed)
        ends = both[1:].tolist()
        most, least = ends[:len(called)], [-end for end in ends[len(called):]]
        for what, high, low in zip(called, most, least):
            if high != _NONE and high != low:
                raise refusal(f"ranks have {what} that differ, and every rank needs the same")
        return made, [None if number == _NONE else number for number in most]

    def _raise(self, failed: Optional[Exception]) -> None:
        said = None if failed is None else (str(failed), getattr(failed, "code", None), type(failed).__name__)
        everyones: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(everyones, said, group=self.group)
        rank, (sentence, code, kind) = next((rank, said) for rank, said in enumerate(everyones) if said is not None)
        if code is not None:
            raise WeirError(sentence, code) from failed
        if failed is not None:
            raise failed
        raise refusal(f"rank {rank} has failed with {kind}: {sentence}")

    def first_that_has(self, thing: Any) -> Any:
        """The thing of the first rank that has one."""
        have: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(have, thing is not None, group=self.group)
        box = [thing]
        dist.broadcast_object_list(box, group=self.group, group_src=have.index(True))
        return box[0]
