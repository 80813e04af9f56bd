"""weir.torch.pipeline: a plan becomes this rank's stages, and a step that runs them in the plan's order."""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree as tree

from ..capture.parts import Parts, attributes_kept
from ..capture.profiling import as_device
from ..capture.recording import autocast_state
from ..capture.replay import Loss
from ..documents import Plan, Schedule
from .flow import cut_stages, look_at_values, take_apart
from .pipes import Pipe, as_schedule, cut_pipes
from ..capture.errors import refusal
from .runtime import NamedStage, make_runtime
from .stage_module import StageModule
from .tied import TiedGradients
from .unchanged import Recorded


class Pipeline:
    """This rank's stages of a plan. Made by `weir.torch.pipeline`, by every rank at the same time."""

    def __init__(self, model: Any, plan: Plan, pipes: Sequence[Pipe], *, device: torch.device,
                 group: Optional[dist.ProcessGroup], loss_fn: Optional[Callable], average: bool):
        self._model = model if isinstance(model, nn.Module) else nn.Sequential(*model)
        self._plan, self._loss_fn, self._group = plan, loss_fn, group
        self.device = device
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
        rank = dist.get_rank(group)
        self._pipes = pipes
        self._pipe = next(pipe for pipe in pipes if rank in pipe.ranks)
        self._place = self._pipe.ranks.index(rank)
        self._pipe_group = self._groups_of([pipe.ranks for pipe in pipes])[pipes.index(self._pipe)]
        self.replicas = len(pipes)
        self.micro_batches = self._pipe.micro_batches
        self.stages = [stage for stage, at in enumerate(self._pipe.rank_of) if at == self._place]
        # DDP averages over pipes, so that each needs no more than to average over its own micro-batches; to add up all
        # samples' gradients instead it must make up for that average.
        self._scale = 1 / len(self._pipe.micro_batches) if average else float(len(pipes))
        self._made: list[Any] = []  # by the last step: losses
        self._parts: Optional[Parts] = None

    def build(self, sample: Any) -> None:
        """Takes the model apart, by one micro-batch's inputs, and keeps this rank's stages of it."""
        with attributes_kept(self._model):
            self._build(sample)

    def _build(self, sample: Any) -> None:
        document = self._plan.document
        self._parts = take_apart(self._model, sample, document)
        gives_loss = self._pipe.has_backward() and self._loss_fn is None
        seen = look_at_values(self._parts, sample, Loss(self._parts, None, None) if gives_loss else None)
        stage_of = {layer: stage["stage"] for stage in document["stages"] for layer in stage["layers"]}
        self._recorded = Recorded(self._parts, sample, lambda again: take_apart(self._model, again, document), stage_of)
        cut = cut_stages(self._parts, document["stages"])
        splits = self._pipe.splits_backward()
        self._metas = {stage.number: ([seen.metas[value] for value in stage.received],
                                      [seen.metas[value] for value in stage.returned]) for stage in cut}
        if splits:
            self._check_gradients_cross()
        self.modules = nn.ModuleList(StageModule(cut[number], number == len(cut) - 1, splits, seen.changed)
                                     for number in self.stages).to(self.device)
        names = {parameter: name for name, parameter in self._model.named_parameters()}
        self._names = {parameter: names[parameter] for parameter in self.modules.parameters()}
        self._take_loss()
        self._tied = TiedGradients(cut, self._pipes, dist.get_rank(self._group), self._groups_of)
        self._autocast = autocast_state(self.device.type)
        self._connect()

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
        if len(self._pipe.rank_of) - 1 in self.stages:
            self._loss_fn.to(self.device)
            self._names.update((parameter, f"loss_fn.{name}") for name, parameter in learned
                               if parameter not in self._names)

    def _check_gradients_cross(self) -> None:
        """PyTorch's split backward drops the gradients of a stage's weights where none of its inputs has a gradient."""
        for number, (received, _) in self._metas.items():
            if number > 0 and not any(meta.requires_grad for meta in received):
                raise refusal(f"there are no weights in front of stage {number}, and PyTorch's split backward (I, W) "
                              "then loses the gradients of that stage: plan with a schedule of whole backwards, such "
                              "as 1f1b, or pin a layer with weights to stage 0")

    def _connect(self) -> None:
        """PyTorch's own stages around the modules, and its schedule object."""
        stages = [NamedStage(module, number, len(self._pipe.rank_of), self.device, group=self._pipe_group,
                             input_args=tuple(self._metas[number][0]), output_args=tuple(self._metas[number][1]))
                  for module, number in zip(self._replicated(), self.stages)]
        loss = self._loss if self._pipe.has_backward() else None
        self._runtime = make_runtime(self._plan.document["schedule"]["name"], self._pipe, stages, loss)

    def _groups_of(self, all_ranks: Sequence[Sequence[int]]) -> list[dist.ProcessGroup]:
        """A process group for each of these lists of ranks; every rank makes them all, in the same order."""
        parent = self._group if self._group is not None else dist.group.WORLD
        for ranks in all_ranks:
            if tuple(ranks) not in self._groups:
                members = [dist.get_global_rank(parent, rank) for rank in ranks]
                self._groups[tuple(ranks)] = dist.new_group(members)
        return [self._groups[tuple(ranks)] for ranks in all_ranks]

    def _replicated(self) -> list[nn.Module]:
        """This rank's stages, each with replicas wrapped in DDP, over the ranks that hold it."""
        if len(self._pipes) == 1:
            return list(self.modules)
        places = range(len(self._pipe.ranks))
        groups = self._groups_of([[pipe.ranks[place] for pipe in self._pipes] for place in places])
        devices = [self.device] if self.device.type == "cuda" else None
        return [DistributedDataParallel(stage, device_ids=devices, process_group=groups[self._place],
                                        broadcast_buffers=False)
                if any(parameter.requires_grad for parameter in stage.parameters()) else stage
                for stage in self.modules]

    def parameters(self) -> Iterator[nn.Parameter]:
        """What an optimizer of this rank steps: the parameters of its stages, and of a loss that has some, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The same, by the names they have in the model; those of a loss begin with `loss_fn.`."""
        if self._parts is None:
            raise refusal("this model's stages are known after its first step: give pipeline a sample of one "
                          "micro-batch's input (sample=x), since what each layer reads is found by running it")
        return ((name, parameter) for parameter, name in self._names.items())

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The buffers of its stages, such as running means, by the names they have in the model."""
        mine = {id(buffer) for buffer in self.modules.buffers()}
        return ((name, buffer) for name, buffer in self._model.named_buffers() if id(buffer) in mine)

    def step(self, *inputs: Any, target: Any = None, **named: Any) -> Any:
        """One iteration: all micro-batches forward and backward, gradients left in `.grad`, summed as a whole batch's.

        Each rank is called with the whole batch (ranks of the first stage need the inputs, those of the last the
        target). Gradients are added to those that are there: `optimizer.zero_grad()` comes between steps.

        Returns:
            on a rank with the last stage, the loss of each of its micro-batches, in their order; elsewhere an empty
            list. Of a schedule without backwards, what the model returns for all of them, or None.
        """
        if inputs and named:
            raise refusal("give a step's inputs either by position or by name, as the sample has them")
        calls = self.micro_batches_of(inputs if inputs else named)
        if self._parts is None:
            self.build(calls[0])
        self._check_is_as_built(calls)
        is_first, is_last = 0 in self.stages, len(self._pipe.rank_of) - 1 in self.stages
        tensors = [self._tensors_of(call) for call in calls] if is_first else None
        self._made.clear()
        if not self._pipe.has_backward():
            made = self._runtime.step(arg_mbs=tensors)
            return self._result(made) if is_last else None
        with self._tied.of_this_step():
            self._runtime.step(arg_mbs=tensors, target_mbs=self._targets(target) if is_last else None,
                               return_outputs=False)
        return list(self._made)

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

    def _check_is_as_built(self, calls: Sequence[Any]) -> None:
        """What stages were made of is not looked at by them: a step that would need others is refused."""
        now = autocast_state(self.device.type)
        if now[1:] != self._autocast[1:] and (now[1] or self._autocast[1]):
            def said(state: tuple) -> str:
                return f"autocast to {str(state[2]).removeprefix('torch.')}" if state[1] else "no autocast"
            raise refusal(f"there is {said(now)} around this step, and there was {said(self._autocast)} when the stages "
                          "were made, which have agreed on the types of their messages: call weir.torch.pipeline and "
                          "step under the same torch.autocast")
        self._recorded.check(calls[0])

    def _tensors_of(self, sample: Any) -> tuple[torch.Tensor, ...]:
        tensors = self._parts.tensors_of(sample)
        planned = self._metas[0][0]
        if _shapes(tensors) != _shapes(planned):
            raise refusal(f"a micro-batch has the shapes {_shapes(tensors)}, and the stages were made for "
                          f"{_shapes(planned)}: every step needs the same, since ranks have agreed on their messages")
        return tuple(tensor.to(self.device) for tensor in tensors)

    def _targets(self, target: Any) -> list:
        parts = self.split(target, "the target")
        return tree.tree_map_only(torch.Tensor, lambda value: value.to(self.device),
                                  [parts[number] for number in self.micro_batches])

    def micro_batches_of(self, inputs: Any) -> list:
        """Of a whole iteration's inputs, those of each micro-batch that this rank's pipe does."""
        parts = self.split(inputs, "the inputs")
        return [parts[number] for number in self.micro_batches]

    def split(self, what: Any, called: str) -> list:
        """The part of each micro-batch of an iteration in all tensors of `what`."""
        micro_batches = sum(len(pipe.micro_batches) for pipe in self._pipes)

        def split(value: torch.Tensor) -> list[torch.Tensor]:
            if value.dim() == 0 or value.shape[0] % micro_batches:
                raise refusal(f"{called} of a step have a tensor of shape {tuple(value.shape)}, whose first dimension "
                              f"does not go into the plan's {micro_batches} micro-batches: give a batch of a multiple "
                              f"of {micro_batches}")
            return list(value.chunk(micro_batches))

        leaves, shape = tree.tree_flatten(what)
        parts = [split(leaf) if isinstance(leaf, torch.Tensor) else [leaf] * micro_batches for leaf in leaves]
        return [tree.tree_unflatten([part[number] for part in parts], shape) for number in range(micro_batches)]

    def _loss(self, output: Any, target: Any) -> torch.Tensor:
        loss = Loss(self._parts, self._loss_fn, target)(self._result(output))
        self._made.append(loss.detach().clone())
        return loss * self._scale

    def _result(self, output: Any) -> Any:
        """What the model itself would have returned, of what the last stage has."""
        tensors = output if isinstance(output, (tuple, list)) else (output,)
        return self._parts.result_of(dict(zip(self._parts.result, tensors)))


def pipeline(model: Any, plan: Union[Plan, str, dict], sample: Any = None, *, loss_fn: Optional[Callable] = None,
             device: Any = None, group: Optional[dist.ProcessGroup] = None,
             schedule: Union[Schedule, str, dict, None] = None, average: bool = True) -> Pipeline:
    """This rank's part of a plan that runs in PyTorch; every rank of `group` calls it, with the same arguments.

    Args:
        model: the whole module that was profiled, or a list of modules that follow each other. The stages keep its
            submodules; what this rank does not hold of it stays where it is.
        plan: a Plan, or its document as text or dict.
        sample: one micro-batch's inputs: a tensor, a tuple of positional or a dict of named arguments. Without it the
            stages are made at the first step, by its first micro-batch; an optimizer needs them before.
        loss_fn: loss_fn(output, target) of one micro-batch, with the output as the model returns it; loss_fn(output)
            where steps have no target. Without it the model returns its loss, itself or as its result's `.loss`.
        device: where the stages are; without it the GPU of the local rank under NCCL, and the CPU otherwise.
        group: the ranks of the plan, by number; without it all.
        schedule: another order for the plan's stages, such as `weir.search(...)`: a Schedule, its document, or a CSV.
        average: whether the loss is the mean of its micro-batch (then gradients are those of the mean of all), or a
            sum (then they are added up).

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
    made = Pipeline(model, plan, pipes, device=device_of(device, group), group=group, loss_fn=loss_fn, average=average)
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


def _shapes(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(f"{list(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}" for tensor in tensors)
