"""What a run leaves behind and begins from: states under the model's own names, whatever plan ran.

A rank has the entries of its stages. Those of all ranks together are the model's state_dict; what lies on several ranks
(tied weights, replicas) is equal on all of them. So a checkpoint of one plan is read by any other.
"""

import json
import os
import pickle
import shutil
from collections.abc import Mapping
from typing import Any, Optional

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn

from ..capture.errors import refusal
from .agreement import Agreement

_MORE, _INDEX = "more.pt", "model.safetensors.index.json"


# --- entries ---

def own_state(model: nn.Module, modules: nn.Module, names: Mapping[nn.Parameter, str]) -> dict[str, torch.Tensor]:
    """Of model.state_dict() what these modules have, and a loss's parameters; tensors are the modules' own."""
    mine = {id(tensor) for tensor in [*modules.parameters(), *modules.buffers()]}
    state = {name: tensor.detach() for name, tensor in model.state_dict(keep_vars=True).items() if id(tensor) in mine}
    state.update((name, parameter.detach()) for parameter, name in names.items() if name.startswith("loss_fn."))
    return state


def check_state(mine: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], model: nn.Module) -> None:
    """Refuses a state that lacks what a rank has, has it in another shape, or has what is not the model's."""
    for name, tensor in mine.items():
        if name not in state:
            raise refusal(f"the state has no {name}, which the model has")
        if state[name].shape != tensor.shape:
            raise refusal(f"{name} has the shape {tuple(state[name].shape)} in the state, and {tuple(tensor.shape)} in "
                          "the model")
    known = {*model.state_dict(keep_vars=True), *mine}
    strange = next((name for name in state if name not in known and not name.startswith("loss_fn.")), None)
    if strange is not None:
        raise refusal(f"the state has {strange}, which the model has not")


def fill(mine: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in mine.items():
            tensor.copy_(state[name])


def gathered_state(model: nn.Module, mine: dict[str, torch.Tensor], group: Optional[dist.ProcessGroup]) -> dict:
    """All ranks' entries on rank 0, one tensor after the other; what no stage reads is as the model has it there."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in mine.items()}
    everyones: list[Any] = [None] * ranks
    dist.all_gather_object(everyones, shapes, group=group)
    whole = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()
             if not tensor.is_meta} if rank == 0 else {}
    known: dict[str, int] = {}
    for owner, theirs in enumerate(everyones):
        for name in theirs:
            known.setdefault(name, owner)
    for name, owner in known.items():
        if owner == 0:
            if rank == 0:
                whole[name] = mine[name].cpu().clone()
        elif rank == owner:
            dist.send(mine[name].contiguous(), group=group, group_dst=0)
        elif rank == 0:
            shape, dtype = everyones[owner][name]
            place = next(iter(mine.values())).device if mine else "cpu"
            got = torch.empty(shape, dtype=dtype, device=place)
            dist.recv(got, group=group, group_src=owner)
            whole[name] = got.cpu()
    order = [*model.state_dict(keep_vars=True), *known]
    return {name: whole[name] for name in dict.fromkeys(order) if name in whole}


# --- checkpoints ---

def save_checkpoint(folder: str, state: dict, names: Mapping[nn.Parameter, str],
                    optimizer: Optional[torch.optim.Optimizer], more: dict, agreement: Agreement) -> None:
    """Into a folder of its own within `folder`; more.pt names it once all is written, so that a save that is cut off
    leaves the one before."""
    group, is_first = agreement.group, dist.get_rank(agreement.group) == 0
    whole = {"model": state}
    if optimizer is not None:
        whole["optimizer"] = agreement.on(lambda: _optimizer_tensors(optimizer, names))[0]
        more = {**more, "_groups": _groups(optimizer, names, group)}
    before = agreement.on(lambda: _begin_saving(folder, more) if is_first else [])[0]
    box = [max([0, *map(int, before)]) + 1]
    dist.broadcast_object_list(box, group=group, group_src=0)
    checkpoint.save(whole, checkpoint_id=os.path.join(folder, str(box[0])), process_group=group)

    def finish() -> None:
        os.replace(_written(folder, {**more, "_at": str(box[0])}), os.path.join(folder, _MORE))
        for name in before:
            shutil.rmtree(os.path.join(folder, name))

    agreement.on(finish if is_first else lambda: None)


def _begin_saving(folder: str, more: dict) -> list[str]:
    """The checkpoints that are there; refuses what could not be read again."""
    os.makedirs(folder, exist_ok=True)
    try:
        torch.load(_written(folder, more), weights_only=True)
    except pickle.UnpicklingError as error:
        raise refusal("save was given what torch.load(weights_only=True) does not read: give numbers, texts, tensors, "
                      f"and lists and dicts of these ({str(error).strip().splitlines()[0]})") from None
    return [name for name in os.listdir(folder) if name.isdigit()]


def _written(folder: str, more: dict) -> str:
    path = os.path.join(folder, _MORE + ".part")
    torch.save(more, path)
    return path


def load_checkpoint(folder: str, state: dict, names: Mapping[nn.Parameter, str],
                    optimizer: Optional[torch.optim.Optimizer], agreement: Agreement) -> dict:
    more = agreement.on(lambda: _read_more(folder, optimizer))[0]
    groups, folder = more.pop("_groups", None), os.path.join(folder, more.pop("_at"))
    whole = {"model": state}
    if optimizer is not None:
        _begin(optimizer)
        whole["optimizer"] = _optimizer_tensors(optimizer, names)
    agreement.on(lambda: _check_holds(folder, whole))
    checkpoint.load(whole, checkpoint_id=folder, process_group=agreement.group)
    if optimizer is not None:
        agreement.on(lambda: _take_groups(optimizer, names, groups))
    return more


def _read_more(folder: str, optimizer: Optional[torch.optim.Optimizer]) -> dict:
    path = os.path.join(folder, _MORE)
    if not os.path.exists(path):
        raise refusal(f"{folder} has no {_MORE}, so it is no checkpoint of pipeline.save, or its writing was cut off")
    more = torch.load(path, weights_only=True)
    if optimizer is not None and "_groups" not in more:
        raise refusal(f"{folder} was saved without an optimizer, and is to be read with one")
    return more


def _check_holds(folder: str, whole: dict) -> None:
    held = checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata
    for kind, entries in whole.items():
        for name, tensor in entries.items():
            found = held.get(f"{kind}.{name}")
            if found is None:
                raise refusal(f"{folder} has no {name}, which the {kind} has: it is of another {kind}")
            if tuple(found.size) != tuple(tensor.shape):
                raise refusal(f"{name} has the shape {tuple(found.size)} in {folder}, and {tuple(tensor.shape)} in the "
                              f"{kind}")


def _optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str]) -> dict[str, torch.Tensor]:
    """Its state, each tensor as NAME//KEY; a number as a tensor."""
    entries = {}
    for parameter, state in optimizer.state.items():
        if parameter not in names:
            raise refusal("the optimizer has parameters that are not the pipeline's: make it of pipeline.parameters()")
        for key, value in state.items():
            if not isinstance(value, torch.Tensor) and value is not None:
                value = state[key] = torch.as_tensor(value)
            if value is not None:
                entries[f"{names[parameter]}//{key}"] = value
    return entries


def _groups(optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str],
            group: Optional[dist.ProcessGroup]) -> dict[str, dict]:
    """By parameter, the settings of its group (lr, betas), of all ranks."""
    mine = {names[parameter]: {key: value for key, value in settings.items() if key != "params"}
            for settings in optimizer.param_groups for parameter in settings["params"]}
    everyones: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyones, mine, group=group)
    return {name: settings for of_rank in everyones for name, settings in of_rank.items()}


def _take_groups(optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str], groups: dict[str, dict]) -> None:
    for settings in optimizer.param_groups:
        told = [groups.get(names[parameter]) for parameter in settings["params"]]
        if any(theirs is None for theirs in told):
            lacking = names[settings["params"][told.index(None)]]
            raise refusal(f"the checkpoint has no settings of the optimizer for {lacking}, which it is to step")
        if told and any(theirs != told[0] for theirs in told):
            raise refusal(f"{names[settings['params'][0]]} and others are in one group of the optimizer, and were "
                          "saved with other settings: make the groups as they were")
        settings.update(told[0] if told else {})


def _begin(optimizer: torch.optim.Optimizer) -> None:
    """Makes the state that an optimizer has after its first step, as zeros of its kind: a step of no length."""
    groups = optimizer.param_groups
    kept = [(settings, dict(settings)) for settings in groups]
    grads = [(parameter, parameter.grad) for settings in groups for parameter in settings["params"]]
    with torch.no_grad():
        values = [(parameter, parameter.detach().clone()) for parameter, _ in grads]
    try:
        for parameter, _ in grads:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    finally:
        for settings, before in kept:
            settings.update(before)
        for parameter, grad in grads:
            parameter.grad = grad
        with torch.no_grad():
            for parameter, value in values:
                parameter.copy_(value)


# --- Hugging Face's files ---

def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise refusal("safetensors is not installed: pip install safetensors") from None
    return safetensors


def save_safetensors(folder: str, state: dict[str, torch.Tensor], first_names: Mapping[str, str], is_written: bool,
                     group: Optional[dist.ProcessGroup]) -> None:
    """A file of each rank's entries, each tensor once, by the first of its names; replicas write nothing."""
    writer = _safetensors()
    os.makedirs(folder, exist_ok=True)
    mine = {name: tensor for name, tensor in state.items() if first_names.get(name, name) == name} if is_written else {}
    everyones: list[Any] = [None] * dist.get_world_size(group)
    sizes = {name: tensor.numel() * tensor.element_size() for name, tensor in mine.items()}
    dist.all_gather_object(everyones, sizes, group=group)
    owner: dict[str, int] = {}
    for rank, names in enumerate(everyones):
        for name in names:
            owner.setdefault(name, rank)
    ranks = sorted(set(owner.values()))
    file_of = {rank: f"model-{place + 1:05}-of-{len(ranks):05}.safetensors" for place, rank in enumerate(ranks)}
    rank = dist.get_rank(group)
    if rank in file_of:
        tensors = {name: mine[name].cpu().contiguous().clone() for name in mine if owner[name] == rank}
        writer.torch.save_file(tensors, os.path.join(folder, file_of[rank]), metadata={"format": "pt"})
    if rank == 0:
        total = sum(everyones[at][name] for name, at in owner.items())
        index = {"metadata": {"total_size": total},
                 "weight_map": {name: file_of[owner[name]] for name in sorted(owner)}}
        with open(os.path.join(folder, _INDEX), "w", encoding="utf-8") as file:
            json.dump(index, file, indent=2)
            file.write("\n")
    dist.barrier(group=group)


def read_safetensors(folder: str, mine: Mapping[str, torch.Tensor], first_names: Mapping[str, str]) -> dict:
    """Of a folder (or one file) of safetensors these entries; a tied tensor may be under any of its names."""
    reader = _safetensors()
    path = os.path.join(folder, _INDEX)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            file_of = json.load(file)["weight_map"]
    else:
        alone = folder if os.path.isfile(folder) else os.path.join(folder, "model.safetensors")
        if not os.path.exists(alone):
            raise refusal(f"{folder} has neither {_INDEX} nor model.safetensors")
        with reader.safe_open(alone, "pt") as file:
            file_of = {name: os.path.basename(alone) for name in file.keys()}
        folder = os.path.dirname(alone)
    others: dict[str, list[str]] = {}
    for name, first in first_names.items():
        others.setdefault(first, []).append(name)
    state = {}
    for name, tensor in mine.items():
        under = next((other for other in [name, *others.get(first_names.get(name, name), [])] if other in file_of),
                     None)
        if under is None:
            raise refusal(f"{folder} has no {name}, which the model has")
        with reader.safe_open(os.path.join(folder, file_of[under]), "pt") as file:
            state[name] = file.get_tensor(under)
        if state[name].shape != tensor.shape:
            raise refusal(f"{name} has the shape {tuple(state[name].shape)} in {folder}, and {tuple(tensor.shape)} in "
                          "the model")
    return state
