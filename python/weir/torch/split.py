"""Whether PyTorch splits the backward of a stage into I and W with the same gradients: tried once, when it is made."""

from collections.abc import Sequence
from typing import Optional

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

from ..capture.errors import refusal
from .stage_module import StageModule

# How far sums in another order may be apart, of the largest number: a lost gradient is apart by all of it.
_ROUNDING = 1e-2


def check_split(module: StageModule, received: Sequence[torch.Tensor]) -> None:
    """Refuses a stage whose gradients by I and W are not those of its whole backward. Buffers and random numbers stay
    as they are, and so do gradients."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    before = [(parameter, parameter.grad) for parameter in parameters]
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    devices = [torch.cuda.current_device()] if any(tensor.is_cuda for tensor in received) else []
    try:
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            why = _why_not(module, received, parameters)
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                if not torch.equal(buffer.nan_to_num(), value.nan_to_num()):  # batch norm changes no version
                    buffer.copy_(value)
        for parameter, grad in before:
            parameter.grad = grad
    if why is not None:
        raise refusal(f"PyTorch cannot split the backward of stage {module.number} into I and W ({why}), as where a "
                      "stage hands on what it has made of a weight alone: plan with a schedule of whole backwards, "
                      "such as 1f1b or interleaved")


def _why_not(module: StageModule, received: Sequence[torch.Tensor], parameters: list) -> Optional[str]:
    state = torch.get_rng_state()
    inputs, outputs, slopes = _forward(module, received, None)
    asked = [tensor for tensor in inputs if tensor.requires_grad]
    wanted = torch.autograd.grad(outputs, asked + parameters, slopes, allow_unused=True)
    torch.set_rng_state(state)
    inputs, outputs, _ = _forward(module, received, slopes)
    for parameter in parameters:
        parameter.grad = None
    try:
        groups = stage_backward_input(outputs, list(slopes), inputs, iter(parameters))[1]
        stage_backward_weight(iter(parameters), groups)
    except Exception as error:  # pylint: disable=broad-exception-caught  # whatever it says, this stage cannot
        return str(error).strip().partition("\n")[0].partition(". ")[0] or type(error).__name__
    got = [tensor.grad for tensor in inputs if tensor.requires_grad] + [parameter.grad for parameter in parameters]
    if all(_is_near(mine, theirs) for mine, theirs in zip(got, wanted)):
        return None
    return "gradients get lost or count twice"


def _forward(module: StageModule, received: Sequence[torch.Tensor], slopes: Optional[list]) -> tuple[list, list, list]:
    inputs = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in received]
    outputs = [tensor for tensor in module(*inputs) if tensor.requires_grad]
    return inputs, outputs, slopes if slopes is not None else [torch.randn_like(tensor) for tensor in outputs]


def _is_near(mine: Optional[torch.Tensor], theirs: Optional[torch.Tensor]) -> bool:
    if mine is None or theirs is None:
        there = mine if mine is not None else theirs
        return there is None or not there.count_nonzero()
    distance, size = (mine - theirs).abs().max(), theirs.abs().max()
    return bool(distance <= _ROUNDING * size) or bool(theirs.isnan().any())
