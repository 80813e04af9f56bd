"""Models on the meta device, which have shapes and no data: seen to run all the same, with zeros for what they make.

What a model computes of shapes alone (positions, masks) is computed as ever, and so constants are right. A call that
reads a tensor without data is made on the meta device; what it returns is zeros.
"""

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .errors import refusal


def is_hollow(module: nn.Module) -> bool:
    """Whether it has a tensor without data."""
    return any(tensor.is_meta for tensor in [*module.parameters(), *module.buffers()])


def called(call: Callable, args: tuple, kwargs: dict) -> Any:
    """call(*args, **kwargs), on the meta device where it reads a tensor without data, or tensors of several devices."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
    own = {**dict(call.named_parameters()), **dict(call.named_buffers())} if isinstance(call, nn.Module) else {}
    devices = {tensor.device for tensor in [*tensors, *own.values()] if tensor.dim() > 0 or tensor.is_meta}
    if len(devices) <= 1 and not any(device.type == "meta" for device in devices):
        return call(*args, **kwargs)
    twins: Dict[int, Tuple[torch.Tensor, torch.Tensor, int]] = {}
    for tensor in tensors:
        if not tensor.is_meta and id(tensor) not in twins:
            twin = tensor.to("meta")
            twins[id(tensor)] = tensor, twin, twin._version
    full = [twins[id(leaf)][1] if isinstance(leaf, torch.Tensor) and id(leaf) in twins else
            torch.device("meta") if isinstance(leaf, torch.device) else leaf for leaf in flat]
    device = next((tensor.device for tensor in tensors if not tensor.is_meta), torch.device("cpu"))
    args, kwargs = pytree.tree_unflatten(full, spec)
    if all(tensor.is_meta for tensor in own.values()):
        result = call(*args, **kwargs)
    else:
        result = torch.func.functional_call(call, {name: tensor.to("meta") for name, tensor in own.items()}, args, kwargs)
    with torch.no_grad():
        for tensor, twin, version in twins.values():
            if twin._version != version:  # changed in place, which is to be seen
                tensor.zero_()
    return pytree.tree_map(lambda leaf: _filled(leaf, list(twins.values()), device), result)


def _filled(leaf: Any, twins: List[Tuple[torch.Tensor, torch.Tensor, int]], device: torch.device) -> Any:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_meta or isinstance(leaf, nn.Parameter):
        return leaf
    for tensor, twin, _ in twins:
        if leaf is twin:
            return tensor
    zeros = torch.zeros(leaf.shape, dtype=leaf.dtype, device=device)
    if not leaf.requires_grad:
        return zeros
    return zeros.add_(torch.zeros((), dtype=leaf.dtype, device=device, requires_grad=True))  # no leaf, as it would be none


# --- data for a part of it ---

def fill_buffers(model: nn.Module, init_fn: Optional[Callable], device: torch.device) -> None:
    """Of modules that have buffers and no parameters, such as rotary embeddings: small, and constants are made of them."""
    for name, module in model.named_modules():
        if any(buffer is not None and buffer.is_meta for buffer in module._buffers.values()) and not module._parameters:
            fresh = {id(buffer): _fresh(buffer, device) for buffer in module._buffers.values() if buffer is not None}
            _put(module, fresh)
            _begin(model, name, module, init_fn)


def fill(model: nn.Module, mine: Iterable[torch.Tensor], others: Iterable[nn.Module], init_fn: Optional[Callable],
         state: Optional[Mapping[str, torch.Tensor]], device: torch.device) -> None:
    """Gives data to `mine` of a model's tensors, wherever the model and `others` (modules that have them, too) hold them.

    Values are those of `state`, by the model's names, and of `init_fn(module)` for modules of which it has not all."""
    fresh = {id(tensor): _fresh(tensor, device) for tensor in mine if tensor.is_meta}
    todo = []
    for name, module in model.named_modules():
        held = [(key, tensor) for key, tensor in [*module._parameters.items(), *module._buffers.items()]
                if tensor is not None and id(tensor) in fresh]
        names = [f"{name}.{key}" if name else key for key, _ in held]
        if held and not (state is not None and all(named in state for named in names)):
            todo.append((name, module))
    for module in [*model.modules(), *(inner for other in others for inner in other.modules())]:
        _put(module, fresh)
    for name, module in todo:
        _begin(model, name, module, init_fn)
    if state is not None:
        with torch.no_grad():
            for name, tensor in model.state_dict(keep_vars=True).items():
                if name in state and not tensor.is_meta:
                    tensor.copy_(state[name])


@contextlib.contextmanager
def materialized(model: nn.Module, part: nn.Module, init_fn: Optional[Callable], device: torch.device) -> Iterator[None]:
    """While it lasts, the tensors of a part of the model have data: those of init_fn, of what else begins its modules, or
    small random numbers. Behind it they have none."""
    mine = [tensor for tensor in [*part.parameters(), *part.buffers()] if tensor.is_meta]
    fresh = {id(tensor): _fresh(tensor, device) for tensor in mine}
    originals = {id(fresh[id(tensor)]): tensor for tensor in mine}
    modules = [*model.modules(), *part.modules()]
    holders = [module for module in model.modules()
               if any(id(tensor) in fresh for tensor in [*module._parameters.values(), *module._buffers.values()])]
    for module in modules:
        _put(module, fresh)
    try:
        with torch.no_grad():
            for module in holders:
                begin = _beginning(model, module, init_fn)
                if begin is not None:
                    begin()
            for tensor in fresh.values():
                _fill_up(tensor)
        part.to(device)  # constants
        yield
    finally:
        for module in modules:
            _put(module, originals)


def _fill_up(tensor: torch.Tensor) -> None:
    """What nothing has begun: the first number is still none."""
    if not tensor.is_floating_point() and not tensor.is_complex():
        return
    if tensor.numel() and bool(tensor.flatten()[0].isnan()):
        tensor.normal_(0, 0.02) if tensor.dim() > 1 else tensor.fill_(1)


def _fresh(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Memory for it; NaN where that can be, so that what stays uninitialised is seen."""
    made = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    made.fill_(float("nan") if made.is_floating_point() or made.is_complex() else 0)
    return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made


def _put(module: nn.Module, fresh: Dict[int, torch.Tensor]) -> None:
    for held in (module._parameters, module._buffers):
        for key, tensor in held.items():
            if tensor is not None and id(tensor) in fresh:
                held[key] = fresh[id(tensor)]


def _begin(model: nn.Module, name: str, module: nn.Module, init_fn: Optional[Callable]) -> None:
    begin = _beginning(model, module, init_fn)
    if begin is None:
        raise refusal(f"{name or 'the model'} ({type(module).__name__}) has no reset_parameters(): hand init_fn, "
                      "which is called with each module that has tensors of its own")
    with torch.no_grad():
        begin()
    for key, tensor in [*module._parameters.items(), *module._buffers.items()]:
        if tensor is not None and tensor.numel() and tensor.is_floating_point() and bool(tensor.flatten()[0].isnan()):
            raise refusal(f"{name}.{key} has no values behind init_fn: it must give all tensors of a "
                          f"{type(module).__name__} values")


def _beginning(model: nn.Module, module: nn.Module, init_fn: Optional[Callable]) -> Optional[Callable[[], Any]]:
    """What gives a module's tensors their first values."""
    begin = init_fn or getattr(model, "_init_weights", None)  # transformers' models have this
    return (lambda: begin(module)) if begin is not None else getattr(module, "reset_parameters", None)
