"""weir.torch.pipeline: a plan becomes this rank's stages, and a step that runs them in the plan's order."""

import json
import zlib
from collections.abc import Callable
from typing import Any, Optional, Union

import torch
import torch.distributed as dist

from ..capture.errors import refusal
from ..capture.profiling import as_device
from ..documents import Plan, Schedule
from .chunks import Chunks
from .forms import Start
from .pipes import as_schedule, cut_pipes
from .steps import Pipeline


def pipeline(model: Any, plan: Union[Plan, str, dict], sample: Any = None, *, loss_fn: Optional[Callable] = None,
             device: Any = None, group: Optional[dist.ProcessGroup] = None,
             schedule: Union[Schedule, str, dict, None] = None, average: Union[bool, str] = True,
             chunk_spec: Any = None, target_chunk_spec: Any = None, deferred_batch_norm: bool = False,
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
            return a sum and how many it is the sum of: then the mean is over all of an iteration.
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
            reset_parameters() or the model's _init_weights (of transformers); and from a folder of safetensors, by
            names.
        compile: whether each module that a stage calls as it is, such as a block, is compiled (module.compile())
            where it runs; better so before weir.profile, which then measures what runs.

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
    if isinstance(plan, str):
        return Plan.from_json(plan)
    if not isinstance(plan, Plan):
        raise refusal(f"a {type(plan).__name__} is no plan: pipeline(model, plan, ..) takes a weir.Plan, its text, or a "
                      "dict of it")
    return plan


def device_of(device: Any, group: Optional[dist.ProcessGroup]) -> torch.device:
    if device is not None:
        return as_device(device)
    if "nccl" in dist.get_backend(group):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
