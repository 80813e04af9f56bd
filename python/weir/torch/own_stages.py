"""Which stages of a plan a rank has: made of the model's modules, with PyTorch's own around them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..capture.errors import refusal
from ..capture.hollow import is_hollow
from ..capture.replay import Loss
from ..documents import Plan
from .agreement import Agreement
from .batch_norm import DeferredBatchNorms, batch_norms_of
from .chunks import Chunks
from .flow import StageFlow
from .forms import Form, Start, make_form, mode_key, shapes_key
from .iteration_loss import IterationLoss
from .pipes import Pipe
from .runtime import NamedStage, make_forward_only, make_runtime
from .tied import TiedGradients


class OwnStages:
    """The stages, their parameters and buffers, and the forms in which they run."""

    def __init__(self, model: Any, plan: Plan, pipes: Sequence[Pipe], *, device: torch.device,
                 group: Optional[dist.ProcessGroup], loss_fn: Optional[Callable], average: Union[bool, str],
                 chunks: Chunks, deferred_batch_norm: bool, start: Start):
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
        self._losses = IterationLoss(pipes, self._pipe, average, self.device, self._agreement,
                                     self._of_last_stages())

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
        """What a forward changes in a buffer must not be on several stages: on ranks of their own each would have a
        count of its own, and on one rank micro-batches come to the stages in another order than to the module."""
        norms = batch_norms_of(form.cut) if self._defers else ()
        deferred = {id(buffer) for module in norms for buffer in module.buffers()}
        for buffer, name in form.parts.program.counting.items():
            stages = _stages_of(form.cut, buffer)
            if buffer not in deferred and len(stages) > 1:
                is_apart = len({self._pipe.rank_of[stage] for stage in stages}) > 1
                why = ("on ranks of their own, so that each would count for itself" if is_apart else
                       "on one rank, where micro-batches would change it in another order")
                raise refusal(f"the forward changes {name}, which stages {' and '.join(map(str, stages))} have {why}: "
                              "keep its module on one stage (pin), or, if it is a batch norm, make the pipeline with "
                              "deferred_batch_norm=True")

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

    def _loss(self, output: Any, target: Any) -> torch.Tensor:
        try:
            found = Loss(self._now.parts, self._loss_fn, target).with_count(self._result(output))
            return self._losses.take(*found)
        except Exception as error:  # pylint: disable=broad-exception-caught  # of loss_fn; other ranks wait meanwhile
            return self._losses.fail(error, output if isinstance(output, (tuple, list)) else (output,))

    def _result(self, output: Any) -> Any:
        """What the model itself would have returned, of what the last stage has."""
        tensors = output if isinstance(output, (tuple, list)) else (output,)
        return self._now.parts.result_of(dict(zip(self._now.parts.result, tensors)))

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

    def parameters(self) -> Iterator[nn.Parameter]:
        """What an optimizer of this rank steps: the parameters of its stages and of a loss that has some, each once."""
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


def _stages_of(cut: Sequence[StageFlow], buffer: int) -> list[int]:
    return [stage.number for stage in cut
            if any(id(mine) == buffer for run in stage.runs for part in run.parts for mine in part.module.buffers())]
