"""The loss of an iteration, of those of its micro-batches: what each counts for, and what gradients are divided by."""

from collections.abc import Sequence
from typing import Optional, Union

import torch
import torch.distributed as dist

from ..capture.errors import refusal
from .agreement import Agreement
from .denominators import Number, Shares, is_mean
from .pipes import Pipe


class IterationLoss:
    """Takes the losses of one step after the other, each of a micro-batch, or sums and counts, where the last stage is.

    DDP averages over pipes, so that each needs no more than to average over its own micro-batches; to add up all
    samples' gradients instead it must make up for that average.
    """

    def __init__(self, pipes: Sequence[Pipe], pipe: Pipe, average: Union[bool, str], device: torch.device,
                 agreement: Agreement, of_last: Optional[tuple[dist.ProcessGroup, int]]):
        """`of_last`: with replicas, a group of the ranks that have a last stage, and which of them has the first
        pipe's."""
        if average not in (True, False, "micro-batches"):
            raise refusal(f"average is {average!r}, and must be True, False or \"micro-batches\"")
        self._replicas, self._numbers = len(pipes), pipe.micro_batches
        self._count = sum(len(each.micro_batches) for each in pipes)
        self._device, self._agreement, self._of_last = device, agreement, of_last
        self._scale = 1 / len(pipe.micro_batches) if average else float(len(pipes))
        self._weighs = average is True
        self._shares = Shares(self._count, pipes[0].micro_batches[0], self._of_first_pipe)
        self._made: list[tuple[torch.Tensor, Optional[torch.Tensor]]] = []
        self._counts: Optional[bool] = None  # whether losses are sums and counts; None before the first step
        self._are_means: list[bool] = []  # of losses that come with a count
        self._failed: Optional[Exception] = None  # the first of the step under way
        self._step_scale = 1.0
        self.may_scale = True  # whether gradients may be scaled behind a step

    def begin(self, scale: float) -> None:
        """A step; `scale` is a GradScaler's."""
        self._step_scale, self._failed = scale, None
        self._made.clear()
        self._are_means.clear()
        self._shares.begin()

    def take(self, loss: torch.Tensor, count: Optional[torch.Tensor]) -> torch.Tensor:
        """Of the next micro-batch. Returns what goes backward."""
        if count is not None and self._counts is False:
            raise refusal("loss_fn returns a sum and its count, and has returned a loss in an earlier step")
        weight: Number = 1.0
        if count is not None:
            self._are_means.append(is_mean(loss))
        elif self._weighs:
            weight = self._shares.weight(loss)
        if isinstance(weight, torch.Tensor) or weight != 1.0:
            loss = loss * weight
        self._made.append((loss.detach().clone(), count))
        return loss * ((self._scale if count is None else 1.0) * self._step_scale)

    def fail(self, error: Exception, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """In place of take(): nothing, which goes backward so that no rank waits for another; settle() raises it."""
        asking = [output for output in outputs if isinstance(output, torch.Tensor) and output.requires_grad]
        if not asking:
            raise error
        self._failed = self._failed or error
        if self._weighs and not self._counts:
            self._shares.pass_over()
        return sum((output * 0).sum().abs() for output in asking)

    @property
    def shares(self) -> list[float]:
        """By micro-batch of all replicas, what its loss counted for in the last step."""
        return self._shares.of

    def _of_first_pipe(self, number: Number) -> Number:
        if self._of_last is None:
            return number
        shared = torch.as_tensor(number, dtype=torch.float64).to(self._device).clone()
        group, first = self._of_last
        dist.broadcast(shared, src=first, group=group)
        return shared

    def settle(self) -> tuple[float, list[torch.Tensor]]:
        """Behind the backwards, on every rank: what this step's gradients are multiplied with, and what losses there
        are here. Raises the same on every rank where a loss was none on any."""
        mine = [count for _, count in self._made if count is not None]
        counts = torch.stack([count.detach().reshape(()).double() for count in mine]).cpu() if mine else torch.zeros(0)
        is_wrong = bool((counts < 0).any())
        is_mean_of_more = any(mean and count != 1 for mean, count in zip(self._are_means, counts.tolist()))
        table = self._shares.rows(self._numbers) if self._made and not mine else self._shares.rows(())
        numbers = torch.tensor([len(mine), len(self._made) - len(mine), counts.sum(), is_wrong, is_mean_of_more,
                                self._shares.are_of_data, self._failed is not None], dtype=torch.float64)
        both = torch.cat([numbers, table.flatten()])
        dist.all_reduce(both, group=self._agreement.group)
        with_count, without, total, is_wrong, is_mean_of_more, are_of_data, failed = both[:len(numbers)].tolist()
        if failed:
            self._agreement.on(self._raise)
        self._check_counts(with_count, without, total, is_wrong, is_mean_of_more)
        self._counts = with_count > 0
        factor = self._shares.settle(both[len(numbers):].reshape(table.shape)) if not self._counts else 1.0
        self.may_scale = self._counts or bool(are_of_data) or self._shares.differ
        if self._counts:
            return self._replicas / total, [loss / total for loss, _ in self._made]
        return factor, [loss if factor == 1.0 else loss * factor for loss, _ in self._made]

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _check_counts(self, with_count: float, without: float, total: float, is_wrong: float,
                      is_mean_of_more: float) -> None:
        if with_count and without:
            raise refusal("loss_fn returned a sum and its count for some micro-batches, and a loss for others")
        if with_count == 0 and self._counts:
            raise refusal("loss_fn returned a sum and its count in an earlier step, and returns a loss now")
        if is_mean_of_more:
            raise refusal("loss_fn returns a mean and a whole number, and these two are taken for a sum and its count: "
                          "return a sum (reduction=\"sum\") and how many it is the sum of, or the loss alone")
        if is_wrong or (with_count and total <= 0):
            raise refusal(f"loss_fn returns a sum and a count, and the counts of an iteration are "
                          f"{'negative' if is_wrong else 'nothing'}: return a sum and how many it is the sum of, or "
                          "the loss alone")


class EvaluationLoss:
    """Takes losses with their graphs, and keeps none of these."""

    def __init__(self, micro_batches: int, weighs: bool):
        self._shares = Shares(micro_batches, 0, lambda number: number)
        self._weighs, self._made = weighs, []

    def take(self, loss: torch.Tensor) -> None:
        self._made.append(loss.detach() * self._shares.weight(loss) if self._weighs else loss.detach())

    def settle(self) -> list[torch.Tensor]:
        """All losses, each as it counts in the mean of all."""
        factor = self._shares.settle(self._shares.rows(range(len(self._made))))
        return [loss if factor == 1.0 else loss * factor for loss in self._made]
