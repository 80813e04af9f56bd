"""A pipeline's stages in one form: for a mode of the model, and for the shapes of one micro-batch.

Stages are steps that were seen to run. In eval mode a model may do others, and so it may with other shapes: each is a
form of its own, made when it is first needed, of the same modules and parameters.
"""

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
from torch import nn
from torch.utils import _pytree as tree

from ..capture.hollow import fill, fill_buffers, is_hollow
from ..capture.leaves import is_compiled
from ..capture.parts import Parts, attributes_kept, has_parameters, left_as_it_was
from ..capture.recording import as_call, autocast_state
from ..capture.replay import Loss
from .flow import StageFlow, cut_stages, take_apart
from .pipes import Pipe
from .saving import read_safetensors
from .split import check_split
from .stage_module import StageModule
from .unchanged import Recorded, modes_of


@dataclasses.dataclass
class Form:
    """What this rank has of the model in one form. `metas`: by stage, of what it gets and what it hands on."""

    parts: Parts
    recorded: Recorded
    cut: list[StageFlow]
    metas: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]]
    modules: nn.ModuleList
    runtime: Any = None  # PyTorch's, for steps
    forward_only: Any = None  # and for evaluation

    def takes_gradient(self, stage: int) -> bool:
        """Whether anything that a stage gets needs one."""
        return any(meta.requires_grad for meta in self.metas[stage][0])


@dataclasses.dataclass(frozen=True)
class Start:
    """What becomes of a rank's modules. Values of a model on the meta device come from `init_fn` and `weights`."""

    init_fn: Optional[Callable]  # of a module
    weights: Optional[str]  # a folder of safetensors
    compiles: bool  # modules that are called as they are


def make_form(model: nn.Module, sample: Any, plan: dict, pipe: Pipe, numbers: Sequence[int], device: torch.device,
              loss_fn: Optional[Callable], is_trained: bool, start: Start) -> Form:
    """Takes the model apart by one micro-batch's inputs; the stages `numbers` of it are this rank's. No rank waits for
    another one here."""
    was_hollow = is_hollow(model)
    if was_hollow:
        fill_buffers(model, start.init_fn, torch.device("cpu"))
    stage_of = {layer: stage["stage"] for stage in plan["stages"] for layer in stage["layers"]}
    with attributes_kept(model):
        parts = take_apart(model, sample, plan)
        recorded = Recorded(parts, sample, lambda again: take_apart(model, again, plan), stage_of)
    cut = cut_stages(parts, plan["stages"])
    made = parts.program.metas
    metas = {stage.number: ([made[value] for value in stage.received], [made[value] for value in stage.returned])
             for stage in cut}
    splits = is_trained and pipe.splits_backward()
    if is_trained and pipe.has_backward() and loss_fn is None:
        Loss(parts, None, None)(parts.result_of(made))
    changed = {part.name: frozenset(before for step in part.steps for before, _ in step.changed
                                    if before in part.inputs) for part in parts}
    modules = nn.ModuleList(StageModule(cut[number], number == len(cut) - 1, splits, changed) for number in numbers)
    if was_hollow:
        mine = list({id(tensor): tensor for tensor in [*modules.parameters(), *modules.buffers()]}.values())
        names = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items()
                 if tensor.is_meta and any(tensor is own for own in mine)}
        state = None if start.weights is None else read_safetensors(start.weights, names, first_names(model))
        fill(model, mine, [*(part.module for part in parts), modules], start.init_fn, state, device)
    values = _values_of(parts, sample) if splits and not was_hollow else {}
    modules.to(device)
    if start.compiles:
        _compile(parts, {layer for number in numbers for layer in plan["stages"][number]["layers"]})
    recorded.take_state()
    if splits:
        values = values or _made_up(metas, numbers, modules, device)
        with attributes_kept(model):
            for module in modules:
                if module.number > 0 and any(meta.requires_grad for meta in metas[module.number][0]):
                    check_split(module, [values[value].detach().to(device).requires_grad_(values[value].requires_grad)
                                         for value in module.received])
    return Form(parts, recorded, cut, metas, modules)


def _compile(parts: Parts, layers: set[str]) -> None:
    """The modules of these layers that have weights, but for those of which a hook is to bring something out."""
    steps = [step for part in parts if part.name in layers for step in part.steps]
    looked_into = {id(step.call) for step in steps if step.inner}
    for step in steps:
        if has_parameters(step) and id(step.call) not in looked_into and not is_compiled(step.call):
            step.call.compile()


def shapes_key(call: Any) -> Optional[int]:
    """A number for the structure of a micro-batch's inputs and their shapes; None where this rank has none."""
    leaves, spec = tree.tree_flatten(as_call(call))
    shapes = [(tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return zlib.crc32(f"{spec}{shapes}".encode()) if shapes else None


def mode_key(model: nn.Module, base: Optional[Form], kind: str) -> int:
    """A number for what the model's steps depend on besides: autocast, and the modes that they read."""
    modes = modes_of(model) if base is None or base.recorded.reads_mode() else []
    state = autocast_state(kind)
    return zlib.crc32(repr((modes, state if state[1] else None)).encode())


def shapes_of(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(f"{list(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}" for tensor in tensors)


def _made_up(metas: dict, numbers: Sequence[int], modules: nn.ModuleList,
             device: torch.device) -> dict[int, torch.Tensor]:
    """What these stages may receive, where nobody has run those in front of them."""
    return {value: (torch.randn(meta.shape, device=device).to(meta.dtype) if meta.is_floating_point() else
                    torch.zeros(meta.shape, dtype=meta.dtype, device=device)).requires_grad_(meta.requires_grad)
            for number, module in zip(numbers, modules) for value, meta in zip(module.received, metas[number][0])}


def first_names(model: nn.Module) -> dict[str, str]:
    """By each name of a tensor of the model's state, its first: tied ones have several."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in model.state_dict(keep_vars=True).items()}


def _values_of(parts: Parts, sample: Any) -> dict[int, torch.Tensor]:
    """What one run of the parts makes, cut off from what made it."""
    values = dict(zip(parts.inputs, parts.tensors_of(sample)))
    with attributes_kept(parts.model), left_as_it_was(parts.model), torch.no_grad():
        for part in parts:
            made = part(*(values[value].clone() if value in parts.changed_values else values[value]
                          for value in part.inputs))
            values.update(zip(part.outputs, made))
    return {value: tensor.detach().requires_grad_(parts.program.metas[value].requires_grad)
            for value, tensor in values.items()}
