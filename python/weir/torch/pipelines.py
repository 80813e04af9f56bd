"""weir.torch.pipeline: a plan becomes this rank's stages, and a step that runs them in the plan's order."""

import contextlib
import inspect
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree as tree

from ..capture.errors import refusal
from ..capture.hollow import is_hollow
from ..capture.profiling import as_device
from ..capture.replay import Loss
from ..documents import Plan, Schedule
from .agreement import Agreement
from .batch_norm import DeferredBatchNorms, batch_norms_of
from .chunks import Chunks
from .flow import StageFlow
from .forms import Form, Start, first_names, make_form, mode_key, shapes_key, shapes_of
from .iteration_loss import EvaluationLoss, IterationLoss
from .pipes import Pipe, as_schedule, cut_pipes
from .runtime import NamedStage, make_forward_only, make_runtime
from .saving import (check_state, fill, gathered_state, load_checkpoint, own_state, read_safetensors, save_checkpoint,
                     save_safetensors)
from .stage_module import asking
from .tied import TiedGradients


class Evaluation(NamedTuple):
    """What `Pipeline.eval` found, on a rank with the last stage; elsewhere no losses, and None."""

    losses: list[torch.Tensor]
    outputs: Any


class Pipeline:
    """This rank's stages of a plan. Made by `weir.torch.pipeline`, by every rank at the same time."""

    def __init__(self, model: Any, plan: Plan, pipes: Sequence[Pipe], *, device: torch.device,
                 group: Optional[dist.ProcessGroup], loss_fn: Optional[Callable], average: Union[bool, str], chunks: Chunks,
                 deferred_batch_norm: bool, start: Start):
        self._model = model if isinstance(model, nn.Module) else nn.Sequential(*model)
        self._plan, self._loss_fn, self._group = plan, loss_fn, group
        self.device = device
        self._agreement = Agreement(group)
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
        rank = dist.get_rank(group)
        self._pipes, self._chunks = pipes, chunks
        self._pipe = next(pipe for pipe in pipes if rank in pipe.ranks)
        self._place = self._pipe.ranks.index(rank)
        self._pipe_group = self._groups_of([pipe.ranks for pipe in pipes])[pipes.index(self._pipe)]
        self.replicas = len(pipes)
        self.micro_batches = self._pipe.micro_batches
        self.stages = [stage for stage, at in enumerate(self._pipe.rank_of) if at == self._place]
        self._is_first, self._is_last = 0 in self.stages, len(self._pipe.rank_of) - 1 in self.stages
        self._defers, self._start = deferred_batch_norm, start
        self._forms: dict[tuple, Form] = {}
        self._base: Optional[Form] = None  # the first, which is trained
        self._now: Optional[Form] = None  # that of the step under way
        self._weighs = average is True
        self._losses = IterationLoss(pipes, self._pipe, average, self.device, self._agreement.group, self._of_last_stages())

    # --- stages ---

    def build(self, sample: Any) -> None:
        """Takes the model apart, by one micro-batch's inputs, and keeps this rank's stages of it."""
        is_hollow = self._agreement.on(self._check_start)[0]
        form, _ = self._agreement.on(lambda: self._make_form(sample, is_trained=True))
        self._chunks.take_sample(sample)
        self._base = form
        self.modules = form.modules
        names = {parameter: name for name, parameter in self._model.named_parameters()}
        self._names = {parameter: names[parameter] for parameter in self.modules.parameters()}
        self._agreement.on(self._take_loss)
        self._agreement.on(lambda: self._check_counting(form))
        self._tied = TiedGradients(form.cut, self._pipes, dist.get_rank(self._group), self._groups_of)
        self._deferred = (DeferredBatchNorms(form.cut, self._pipes, dist.get_rank(self._group), self._groups_of)
                          if self._defers else None)
        self._forms[self._key(sample)] = form
        form.runtime = self._runtime_of(form)
        if self._start.weights is not None and not is_hollow:
            self.load_safetensors(self._start.weights)

    def _check_start(self) -> bool:
        hollow = is_hollow(self._model)
        if self._start.init_fn is not None and not hollow:
            raise refusal("init_fn is for a model on the meta device (torch.device(\"meta\")), and this one has values")
        return hollow

    def _make_form(self, sample: Any, is_trained: bool) -> Form:
        return make_form(self._model, sample, self._plan.document, self._pipe, self.stages, self.device, self._loss_fn,
                         is_trained, self._start)

    def _key(self, call: Any) -> tuple:
        return shapes_key(call), mode_key(self._model, self._base, self.device.type)

    def _take_loss(self) -> None:
        """A loss that has parameters belongs to the last stage, where it is computed."""
        if not isinstance(self._loss_fn, nn.Module):
            return
        learned = [(name, parameter) for name, parameter in self._loss_fn.named_parameters() if parameter.requires_grad]
        if learned and self.replicas > 1:
            raise refusal(f"the loss has parameters ({learned[0][0]}), and each of the plan's {self.replicas} replicas "
                          "would learn its own: make it a part of the model, whose forward returns the loss")
        if learned and self._pipe.splits_backward():
            raise refusal(f"the loss has parameters ({learned[0][0]}), and PyTorch's split backward (I, W) loses their "
                          "gradients: make it a part of the model, whose forward returns the loss, or plan with a "
                          "schedule of whole backwards, such as 1f1b")
        if self._is_last:
            self._loss_fn.to(self.device)
            self._names.update((parameter, f"loss_fn.{name}") for name, parameter in learned
                               if parameter not in self._names)

    def _check_counting(self, form: Form) -> None:
        """What a forward counts in a buffer must not be on several ranks of a pipe, each with a count of its own."""
        norms = batch_norms_of(form.cut) if self._defers else ()
        deferred = {id(buffer) for module in norms for buffer in module.buffers()}
        for buffer, name in form.parts.program.counting.items():
            stages = _stages_of(form.cut, buffer)
            if buffer not in deferred and len({self._pipe.rank_of[stage] for stage in stages}) > 1:
                raise refusal(f"the forward changes {name}, which stages {' and '.join(map(str, stages))} have on ranks "
                              "of their own, so that each would count for itself: keep its module on one stage (pin), "
                              "or, if it is a batch norm, make the pipeline with deferred_batch_norm=True")

    def _runtime_of(self, form: Form) -> Any:
        """PyTorch's own stages around the modules, and its schedule object."""
        if not self._pipe.has_backward():
            return self._forward_only_of(form)
        return make_runtime(self._pipe.name, self._pipe, self._stages_of(form, self._replicated(form)), self._loss)

    def _forward_only_of(self, form: Form) -> Any:
        if form.forward_only is None:
            form.forward_only = make_forward_only(self._pipe, self._stages_of(form, list(form.modules)))
        return form.forward_only

    def _stages_of(self, form: Form, modules: Sequence[nn.Module]) -> list[NamedStage]:
        return [NamedStage(module, number, len(self._pipe.rank_of), self.device, group=self._pipe_group,
                           input_args=tuple(form.metas[number][0]), output_args=tuple(form.metas[number][1]),
                           takes_gradient=form.takes_gradient(number))
                for module, number in zip(modules, self.stages)]

    def _of_last_stages(self) -> Optional[tuple[dist.ProcessGroup, int]]:
        """Of several pipes, the group of the ranks that have the last stage, and the first pipe's of these."""
        if self.replicas == 1:
            return None
        ranks = [pipe.ranks[pipe.rank_of[-1]] for pipe in self._pipes]
        parent = self._group if self._group is not None else dist.group.WORLD
        return self._groups_of([ranks])[0], dist.get_global_rank(parent, ranks[0])

    def _groups_of(self, all_ranks: Sequence[Sequence[int]]) -> list[dist.ProcessGroup]:
        """A process group for each of these lists of ranks; every rank makes them all, in the same order."""
        parent = self._group if self._group is not None else dist.group.WORLD
        for ranks in all_ranks:
            if tuple(ranks) not in self._groups:
                members = [dist.get_global_rank(parent, rank) for rank in ranks]
                self._groups[tuple(ranks)] = dist.new_group(members)
        return [self._groups[tuple(ranks)] for ranks in all_ranks]

    def _replicated(self, form: Form) -> list[nn.Module]:
        """This rank's stages, each with replicas wrapped in DDP, over the ranks that hold it."""
        if len(self._pipes) == 1:
            return list(form.modules)
        places = range(len(self._pipe.ranks))
        groups = self._groups_of([[pipe.ranks[place] for pipe in self._pipes] for place in places])
        devices = [self.device] if self.device.type == "cuda" else None
        return [DistributedDataParallel(stage, device_ids=devices, process_group=groups[self._place],
                                        broadcast_buffers=False)
                if any(parameter.requires_grad for parameter in stage.parameters()) else stage
                for stage in form.modules]

    # --- what it has of the model ---

    def parameters(self) -> Iterator[nn.Parameter]:
        """What an optimizer of this rank steps: the parameters of its stages, and of a loss that has some, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The same, by the names they have in the model; those of a loss begin with `loss_fn.`."""
        self._check_built()
        return ((name, parameter) for parameter, name in self._names.items())

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The buffers of its stages, such as running means, by the names they have in the model."""
        self._check_built()
        mine = {id(buffer) for buffer in self.modules.buffers()}
        return ((name, buffer) for name, buffer in self._model.named_buffers() if id(buffer) in mine)

    def _check_built(self) -> None:
        if self._base is None:
            raise refusal("this model's stages are known after its first step: give pipeline a sample of one "
                          "micro-batch's input (sample=x), since what each layer reads is found by running it")

    # --- steps ---

    def step(self, *inputs: Any, target: Any = None, scaler: Optional[torch.amp.GradScaler] = None, **named: Any) -> Any:
        """One iteration: all micro-batches forward and backward, gradients left in `.grad`, summed as a whole batch's.

        Each rank is called with the whole batch (ranks of the first stage need the inputs, those of the last the
        target). Gradients are added to those that are there: `optimizer.zero_grad()` comes between steps.

        Args:
            inputs, named: what the model is called with, of all micro-batches: tensors of the sample's shape go whole to
                each, others are cut along the first dimension, or as chunk_spec says.
            target: of all micro-batches, cut along the first dimension, or as target_chunk_spec says.
            scaler: scales the loss. Behind the step call `pipeline.unscale_(scaler, optimizer)` on every rank.

        Returns:
            on a rank with the last stage, the loss of each of its micro-batches, in their order; elsewhere an empty
            list. Their mean (with replicas: over all of these) is the loss of the iteration, for which those are weighed
            that are means over other numbers of labels; where loss_fn returns a sum and its count, it is their sum. Of a
            schedule without backwards, what the model returns for all micro-batches, or None.
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
            target, if none is needed, or if the model returns its loss; outputs: there what the model returns, of all of
            its micro-batches.
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

    def _losses_of(self, form: Form, outputs: list, targets: Sequence[Any], taken: EvaluationLoss) -> list[torch.Tensor]:
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

    # --- what is saved ---

    def state_dict(self, *, gathered: bool = False) -> dict[str, torch.Tensor]:
        """What model.state_dict() would have of this rank's stages, under the model's own names; `gathered`: of all
        stages, on rank 0, as copies on the CPU, and nothing on the others. Every rank calls it then.

        A rank's own part may be given to torch.distributed.checkpoint, of whatever plan.
        """
        self._check_built()
        mine = own_state(self._model, self.modules, self._names)
        return gathered_state(self._model, mine, self._group) if gathered else mine

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Takes this rank's part of a state, whole or of these stages. Every rank calls it."""
        self._check_built()
        mine = own_state(self._model, self.modules, self._names)
        self._agreement.on(lambda: check_state(mine, state, self._model))
        fill(mine, state)

    def save(self, folder: str, optimizer: Optional[torch.optim.Optimizer] = None, **more: Any) -> None:
        """Writes a checkpoint by torch.distributed.checkpoint: every rank its part, of weights, buffers and optimizer.
        What was saved there before is removed once all is written.

        Args:
            optimizer: of `pipeline.parameters()`.
            more: what is the same on every rank, such as a step's number or scheduler.state_dict(): rank 0's is kept.
        """
        self._check_built()
        save_checkpoint(folder, self.state_dict(), self._names, optimizer, more, self._agreement)

    def load(self, folder: str, optimizer: Optional[torch.optim.Optimizer] = None) -> dict[str, Any]:
        """Reads a checkpoint of `save`, of this plan or of another one, on as many ranks as there are now.

        Returns:
            what was saved as `more`.
        """
        self._check_built()
        return load_checkpoint(folder, self.state_dict(), self._names, optimizer, self._agreement)

    def save_safetensors(self, folder: str) -> None:
        """Writes the weights as Hugging Face does: a file of each rank's, and model.safetensors.index.json."""
        is_first_replica = self._pipes.index(self._pipe) == 0
        save_safetensors(folder, self.state_dict(), first_names(self._model), is_first_replica, self._group)

    def load_safetensors(self, folder: str) -> None:
        """Reads of such a folder what this rank's stages have, by names."""
        self._check_built()
        state = self._agreement.on(lambda: read_safetensors(folder, self.state_dict(), first_names(self._model)))[0]
        fill(self.state_dict(), state)

    # --- steps, and what stands around them ---

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
                          "stages were not made for, and replicas (DDP) have one form of each stage: give every step the "
                          "same")
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
            raise refusal(f"rank {dist.get_rank(self._group)} has the model's first stage, and step was given no inputs "
                          "there")
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
        """By micro-batch of all replicas, what its loss counted for in the last step: 1 each, unless they are means over
        numbers that differ."""
        return self._losses.shares

    def micro_batches_of(self, inputs: Any) -> list:
        """Of a whole iteration's inputs, those of each micro-batch that this rank's pipe does."""
        parts = self._chunks.inputs(inputs)
        return [parts[number] for number in self.micro_batches]

    @contextlib.contextmanager
    def _gradients_apart(self) -> Iterator[Callable[[float], None]]:
        """Gradients of this step alone, where they are scaled or added up behind it; then added to what was there, which
        stays as it is where the step fails. Gives what multiplies them."""
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

    def _loss(self, output: Any, target: Any) -> torch.Tensor:
        return self._losses.take(*Loss(self._now.parts, self._loss_fn, target).with_count(self._result(output)))

    def _result(self, output: Any) -> Any:
        """What the model itself would have returned, of what the last stage has."""
        tensors = output if isinstance(output, (tuple, list)) else (output,)
        return self._now.parts.result_of(dict(zip(self._now.parts.result, tensors)))


def _stages_of(cut: Sequence[StageFlow], buffer: int) -> list[int]:
    return [stage.number for stage in cut
            if any(id(mine) == buffer for run in stage.runs for part in run.parts for mine in part.module.buffers())]


def _given(call: Any) -> Any:
    return call if any(isinstance(leaf, torch.Tensor) for leaf in tree.tree_leaves(call)) else None


def _takes_one(function: Callable) -> bool:
    """Whether a loss can be called with the output alone."""
    try:
        inspect.signature(function.forward if isinstance(function, nn.Module) else function).bind(None)
    except (TypeError, ValueError):
        return False
    return True


def pipeline(model: Any, plan: Union[Plan, str, dict], sample: Any = None, *, loss_fn: Optional[Callable] = None,
             device: Any = None, group: Optional[dist.ProcessGroup] = None,
             schedule: Union[Schedule, str, dict, None] = None, average: Union[bool, str] = True, chunk_spec: Any = None,
             target_chunk_spec: Any = None, deferred_batch_norm: bool = False,
             init_fn: Optional[Callable] = None, weights: Optional[str] = None, compile: bool = False) -> Pipeline:
    """This rank's part of a plan that runs in PyTorch; every rank of `group` calls it, with the same arguments.

    Args:
        model: the whole module that was profiled, or a list of modules that follow each other. The stages keep its
            submodules; what this rank does not hold of it stays where it is.
        plan: a Plan, or its document as text or dict.
        sample: one micro-batch's inputs: a tensor, a tuple of positional or a dict of named arguments, or both as
            `weir.call(x, mask=m)`. Without it the stages are made at the first step, by its first micro-batch; an
            optimizer needs them before.
        loss_fn: loss_fn(output, target) of one micro-batch, with the output as the model returns it; loss_fn(output)
            where steps have no target. Without it the model returns its loss, itself or as its result's `.loss`. It may
            return a sum and how many it is the sum of: then the mean is over all of an iteration, as padded labels need.
        device: where the stages are; without it the GPU of the local rank under NCCL, and the CPU otherwise.
        group: the ranks of the plan, by number; without it all.
        schedule: another order for the plan's stages, such as `weir.search(...)`: a Schedule, its document, or a CSV.
        average: whether the loss is the mean of its micro-batch, or a sum, so that gradients are added up. Gradients of
            means are those of the mean over the whole iteration: where micro-batches count other numbers of labels, or
            of a mask, their losses are weighed by these, or the step is refused; "micro-batches" takes the mean of the
            micro-batches' losses as they are.
        chunk_spec, target_chunk_spec: how a step's inputs and target are cut, if not so: a dimension, or
            None for what every micro-batch gets whole, for each tensor or for all.
        deferred_batch_norm: whether running means and variances are updated once a step, by those over all of its
            samples, in place of once a micro-batch. Each micro-batch is normalised by its own in either case.
        init_fn, weights: of a model on the meta device (`with torch.device("meta"): model = ...`) each rank makes no
            more than its stages: by init_fn(module) of each module that has tensors of its own, which is otherwise its
            reset_parameters() or the model's _init_weights (of transformers); and from a folder of safetensors, by names.
        compile: whether each module that a stage calls as it is, such as a block, is compiled (module.compile()) where it
            runs; better so before weir.profile, which then measures what runs.

    Raises:
        WeirError: for a plan that PyTorch cannot run, with the reason and what to do instead.
    """
    plan = as_plan(plan)
    if not dist.is_initialized():
        raise refusal("no process group: start the ranks by torchrun and call torch.distributed.init_process_group "
                      "first")
    _check_all_have(plan, schedule, group)
    pipes = cut_pipes(plan, schedule)
    ranks = sum(len(pipe.ranks) for pipe in pipes)
    if ranks != dist.get_world_size(group):
        raise refusal(f"the plan has {ranks} ranks, and {dist.get_world_size(group)} processes were started: "
                      f"torchrun --nproc-per-node {ranks}")
    chunks = Chunks(sum(len(pipe.micro_batches) for pipe in pipes), chunk_spec, target_chunk_spec)
    made = Pipeline(model, plan, pipes, device=device_of(device, group), group=group, loss_fn=loss_fn, average=average,
                    chunks=chunks, deferred_batch_norm=deferred_batch_norm, start=Start(init_fn, weights, compile))
    if sample is not None:
        made.build(sample)
    return made


def _check_all_have(plan: Plan, schedule: Union[Schedule, str, dict, None], group: Optional[dist.ProcessGroup]) -> None:
    """Stages of two plans may fit together by their shapes, and would then train a model that nobody has."""
    order = "" if schedule is None else as_schedule(schedule).json()
    mine = (zlib.crc32(plan.json().encode()), zlib.crc32(order.encode()))
    everyones: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyones, mine, group=group)
    other = next((rank for rank, theirs in enumerate(everyones) if theirs != everyones[0]), None)
    if other is not None:
        what = "plan" if everyones[other][0] != everyones[0][0] else "schedule"
        raise refusal(f"rank {other} has another {what} than rank 0, and all need the same: times differ on each rank "
                      "that measures them, so plan on one rank, and hand plan.json() on by "
                      "torch.distributed.broadcast_object_list or a file")


def as_plan(plan: Union[Plan, str, dict]) -> Plan:
    if isinstance(plan, dict):
        return Plan.from_json(json.dumps(plan))
    return Plan.from_json(plan) if isinstance(plan, str) else plan


def device_of(device: Any, group: Optional[dist.ProcessGroup]) -> torch.device:
    if device is not None:
        return as_device(device)
    if "nccl" in dist.get_backend(group):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")

