"""A pipeline's steps: micro-batches forward and backward in the plan's order, or forward alone."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

import torch
import torch.distributed as dist
from torch import nn
from torch.utils import _pytree as tree

from ..capture.errors import refusal
from ..capture.replay import Loss
from .forms import Form, shapes_of
from .iteration_loss import EvaluationLoss
from .stage_module import asking
from .states import SavedStages


class Evaluation(NamedTuple):
    """What `Pipeline.eval` found, on a rank with the last stage; elsewhere no losses, and None."""

    losses: list[torch.Tensor]
    outputs: Any

class Pipeline(SavedStages):
    """This rank's stages of a plan. Made by `weir.torch.pipeline`, by every rank at the same time."""

    def step(self, *inputs: Any, target: Any = None, scaler: Optional[torch.amp.GradScaler] = None,
             **named: Any) -> Any:
        """One iteration: all micro-batches forward and backward, gradients left in `.grad`, summed as a whole batch's.

        Each rank is called with the whole batch (ranks of the first stage need the inputs, those of the last the
        target). Gradients are added to those that are there: `optimizer.zero_grad()` comes between steps.

        Args:
            inputs, named: what the model is called with, of all micro-batches: tensors of the sample's shape go whole
                to each, others are cut along the first dimension, or as chunk_spec says.
            target: of all micro-batches, cut along the first dimension, or as target_chunk_spec says.
            scaler: scales the loss. Behind the step call `pipeline.unscale_(scaler, optimizer)` on every rank.

        Returns:
            on a rank with the last stage, the loss of each of its micro-batches, in their order; elsewhere an empty
            list. Their mean (with replicas: over all of these) is the loss of the iteration, for which those are
            weighed that are means over other numbers of labels; where loss_fn returns a sum and its count, it is their
            sum. Of a schedule without backwards, what the model returns for all micro-batches, or None.
        """
        form, tensors, targets = self._prepare(inputs, named, target, is_trained=True)
        if not self._pipe.has_backward():
            outputs = self._forward(form, tensors)
            return self._chunks.join(outputs) if self._is_last else None
        scale = 1.0 if scaler is None else scaler.scale(torch.ones((), device=self.device)).item()
        if scaler is not None:
            self._agreement.on(lambda: scale, lambda scale: [int(scale * 1024)],
                               ("scales of the loss (call pipeline.unscale_ before scaler.step)",))
        self._losses.begin(scale)
        with self._gradients_apart() as multiply, self._deferring():
            form.runtime.step(arg_mbs=tensors, target_mbs=targets if self._is_last else None, return_outputs=False)
            self._tied.add_up()
            factor, losses = self._losses.settle()
            multiply(factor)
        return losses

    def eval(self, *inputs: Any, target: Any = None, **named: Any) -> Evaluation:
        """All micro-batches forward only, in eval mode and without gradients: the same inputs as of `step`, any number
        of samples that goes into the micro-batches. Modules are in the mode they were in when it returns.

        Returns:
            losses, on a rank with the last stage: of each of its micro-batches, as `step` has them, if there is a
            target, if none is needed, or if the model returns its loss; outputs: there what the model returns, of all
            of its micro-batches.
        """
        modules = [*self._model.modules(), *(self._loss_fn.modules() if isinstance(self._loss_fn, nn.Module) else ())]
        before = [(module, module.training) for module in modules]
        try:
            for module in modules:
                module.training = False
            with torch.no_grad():
                return self._evaluate(*self._prepare(inputs, named, target, is_trained=False))
        finally:
            for module, training in before:
                module.training = training

    def _evaluate(self, form: Form, tensors: Optional[list], targets: Sequence[Any]) -> Evaluation:
        """Runs the stages; losses are what loss_fn makes of each micro-batch's output, or those of the model."""
        taken = EvaluationLoss(len(self.micro_batches), self._weighs)

        def see(output: Any) -> None:
            result = self._result(output)
            loss = getattr(result, "loss", result)
            if isinstance(loss, torch.Tensor) and loss.numel() == 1:
                taken.take(loss)

        outputs = self._forward(form, tensors, see if self._loss_fn is None else None)
        losses, _ = self._agreement.on(lambda: self._losses_of(form, outputs, targets, taken) if self._is_last else [])
        return Evaluation(losses, self._chunks.join(outputs) if self._is_last else None)

    def _losses_of(self, form: Form, outputs: list, targets: Sequence[Any],
                   taken: EvaluationLoss) -> list[torch.Tensor]:
        if self._loss_fn is None:
            return taken.settle()
        if all(wanted is None for wanted in targets) and not _takes_one(self._loss_fn):
            return []
        counted: list[tuple[torch.Tensor, torch.Tensor]] = []
        for output, wanted in zip(outputs, targets):
            with torch.enable_grad():  # a loss's graph says what it is the mean over
                loss, count = Loss(form.parts, self._loss_fn, wanted, is_trained=False).with_count(asking(output))
            if count is None:
                taken.take(loss)
            else:
                counted.append((loss.detach(), count))
        total = sum(count for _, count in counted)
        return [loss / total for loss, _ in counted] or taken.settle()

    def _forward(self, form: Form, tensors: Optional[list], see: Optional[Callable] = None) -> list:
        """Runs the stages forward; what the model returns of each micro-batch, where the last stage is, which `see` is
        shown with the graph of its last part."""
        made: list[Any] = []
        last = [module for module in form.modules if module.is_last]
        kept = [module.register_forward_hook(lambda module, args, output: made.append(output)) for module in last]
        try:
            for module in last:
                module.shown = see
            with torch.no_grad():
                self._forward_only_of(form).step(arg_mbs=tensors, return_outputs=False)
        finally:
            for module in last:
                module.shown = None
            for hook in kept:
                hook.remove()
        return [self._result(output) for output in made]
    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """torch.nn.utils.clip_grad_norm_ of the whole model: every rank calls it, between `step` and the optimizer's.

        Returns:
            the norm (2) of all gradients before, the same on every rank: of all stages, tied weights counted once.
        """
        given = [parameter for parameter in self.parameters() if parameter.grad is not None]
        counted = [parameter.grad for parameter in given if self._tied.is_counted(parameter)]
        norm = torch.nn.utils.get_total_norm(counted).to(self.device, torch.float64)
        square = norm.square()
        dist.all_reduce(square, group=self._pipe_group)
        total = square.sqrt().to(torch.float32)
        torch.nn.utils.clip_grads_with_norm_(given, max_norm, total)
        return total

    def unscale_(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        """scaler.unscale_(optimizer), with what is not finite on any rank known to all: then `scaler.step` and
        `scaler.update` do the same everywhere. Every rank calls it behind `step`, before it clips."""
        scaler.unscale_(optimizer)
        found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        if not found:  # no gradients here
            found[self.device] = torch.zeros((), device=self.device)
        worst = torch.stack([value.to(self.device) for value in found.values()]).max()
        dist.all_reduce(worst, op=dist.ReduceOp.MAX, group=self._group)
        for value in found.values():
            value.fill_(worst)
    # --- within a step ---

    def _prepare(self, inputs: tuple, named: dict, target: Any,
                 is_trained: bool) -> tuple[Form, Optional[list], Optional[list]]:
        """The form of the model that these inputs need, and each micro-batch's tensors and targets, where this rank has
        the first stage, or the last. What is refused on one rank is refused on all."""
        def cut() -> tuple[list, list]:
            calls = self.micro_batches_of(self._chunks.call_of(inputs, named))
            return calls, self._targets(target)

        def numbers(made: tuple) -> tuple:
            shapes, mode = self._key(made[0][0])
            return shapes, mode, None if shapes is not None else 0

        called = "inputs of shapes", "train and eval modes, or autocast,", ""
        (calls, targets), found = self._agreement.on(cut, numbers, called)
        shapes, mode, somebody_has_none = found
        if shapes is None:
            raise refusal("no rank was given inputs: call step and eval with what the model is called with")
        key = (shapes, mode) if is_trained or self._base is None else (shapes, mode, "eval")
        if self._base is None:
            self.build(self._agreement.first_that_has(_given(calls[0])) if somebody_has_none is not None else calls[0])
        elif is_trained and key not in self._forms and self.replicas > 1:
            raise refusal(f"a micro-batch has the shapes {self._shapes_said(calls[0])}, or autocast or a mode that the "
                          "stages were not made for, and replicas (DDP) have one form of each stage: give every step "
                          "the same")
        elif key not in self._forms and not (not is_trained and (shapes, mode) in self._forms):
            call = self._agreement.first_that_has(_given(calls[0])) if somebody_has_none is not None else calls[0]
            form, _ = self._agreement.on(lambda: self._make_form(call, is_trained))
            if is_trained:
                form.runtime = self._runtime_of(form)
            self._forms[key] = form
        form = self._forms.get(key) or self._forms.get(key[:2]) or self._base
        tensors, _ = self._agreement.on(lambda: self._checked(form, calls, targets, is_trained))
        self._now = form
        return form, tensors, targets

    def _checked(self, form: Form, calls: list, targets: list, is_trained: bool) -> Optional[list]:
        """The tensors of the first stage, if it is here and the model still is what its stages were made of."""
        if is_trained and self._pipe.has_backward() and not torch.is_grad_enabled():
            raise refusal("step computes gradients, and is called under torch.no_grad(): call eval")
        if self._is_first and _given(calls[0]) is None:
            raise refusal(f"rank {dist.get_rank(self._group)} has the model's first stage, and step was given no "
                          "inputs there")
        needs_target = self._loss_fn is not None and self._pipe.has_backward() and is_trained
        if self._is_last and needs_target and targets[0] is None and not _takes_one(self._loss_fn):
            raise refusal(f"rank {dist.get_rank(self._group)} has the model's last stage, and loss_fn needs a target, "
                          "which step was not given there (target=)")
        form.recorded.check(calls[0])
        if not self._is_first:
            return None
        return [tuple(tensor.to(self.device) for tensor in form.parts.tensors_of(call)) for call in calls]

    def _shapes_said(self, call: Any) -> str:
        return shapes_of([leaf for leaf in tree.tree_leaves(call) if isinstance(leaf, torch.Tensor)])

    def _targets(self, target: Any) -> list:
        parts = self._chunks.target(target)
        return tree.tree_map_only(torch.Tensor, lambda value: value.to(self.device),
                                  [parts[number] for number in self.micro_batches])

    def cut(self, call: Any, target: Any) -> tuple[list, list]:
        """A whole iteration's inputs and targets, cut into all micro-batches of all replicas."""
        return self._chunks.inputs(call), self._chunks.target(target)

    def join(self, parts: list) -> Any:
        """Of each micro-batch's output, that of all."""
        return self._chunks.join(parts)

    @property
    def counts_in_forward(self) -> bool:
        """Whether a forward changes a buffer, such as a running mean."""
        return bool(self._base.parts.program.counting)

    @property
    def shares(self) -> list[float]:
        """By micro-batch of all replicas, what its loss counted for in the last step: 1 each, unless they are means
        over numbers that differ."""
        return self._losses.shares

    def micro_batches_of(self, inputs: Any) -> list:
        """Of a whole iteration's inputs, those of each micro-batch that this rank's pipe does."""
        parts = self._chunks.inputs(inputs)
        return [parts[number] for number in self.micro_batches]

    @contextlib.contextmanager
    def _gradients_apart(self) -> Iterator[Callable[[float], None]]:
        """Gradients of this step alone, where they are scaled or added up behind it; then added to what was there,
        which stays as it is where the step fails. Gives what multiplies them."""
        apart = list(self.parameters()) if self._losses.may_scale else self._tied.parameters()
        before = [(parameter, parameter.grad) for parameter in apart]
        others = [] if self._losses.may_scale else [parameter for parameter in self.parameters()
                                                    if parameter.grad is not None and parameter not in set(apart)]
        for parameter in apart:
            parameter.grad = None

        def multiply(factor: float) -> None:
            if factor != 1.0 and others:
                raise refusal("losses of micro-batches are means over other numbers, which they were not in earlier "
                              "steps, and there are gradients already: let loss_fn return a sum and its count")
            for parameter in self.parameters() if factor != 1.0 else ():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

        try:
            yield multiply
        except BaseException:
            for parameter, grad in before:
                parameter.grad = grad
            raise
        for parameter, grad in before:
            if grad is not None:
                parameter.grad = grad if parameter.grad is None else grad.add_(parameter.grad)

    def _deferring(self) -> Any:
        return contextlib.nullcontext() if self._deferred is None else self._deferred.of_this_step()


def _given(call: Any) -> Any:
    return call if any(isinstance(leaf, torch.Tensor) for leaf in tree.tree_leaves(call)) else None


def _takes_one(function: Callable) -> bool:
    """Whether a loss can be called with the output alone."""
    try:
        inspect.signature(function.forward if isinstance(function, nn.Module) else function).bind(None)
    except (TypeError, ValueError):
        return False
    return True
