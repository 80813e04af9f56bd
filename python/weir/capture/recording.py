"""A model's forward, written down as steps while it runs.

The model runs once on its sample. A leaf is called as it is and is one step; everything that the other modules compute
between them is seen by a TorchFunctionMode, one step for each function of PyTorch. What depends on neither the sample,
nor parameters, nor random numbers (position ids, causal masks) is a constant of the program. Nothing is compiled,
exported or generated: steps call what the model called, so that their results agree with it to the bit.
"""

import contextlib
import functools
import numbers
import re
import sys
import types
import weakref
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..library import WeirError
from .errors import refusal
from .hollow import called, is_hollow
from .leaves import LISTS, is_compiled, plain_name, uncompiled


# Functions that make no tensor, and do something in the backward.
FOR_BACKWARD = {"register_hook", "retain_grad"}


@dataclass(frozen=True)
class Value:
    """A tensor that is made by a step or handed to the model."""

    index: int


@dataclass(frozen=True, eq=False)
class Attribute:
    """A parameter or buffer that steps read from the module that has it, so that they see it as it is then."""

    owner: nn.Module
    key: str
    name: str  # qualified

    def get(self) -> torch.Tensor:
        return getattr(self.owner, self.key)


@dataclass(frozen=True)
class Inner:
    """A tensor that a module within a leaf returns and a hook brings out, as transformers does with router logits."""

    path: str  # of the module, from the leaf
    number: int  # of its calls, from 0
    place: int  # among the leaves of its result
    value: int


@contextlib.contextmanager
def seeing_results(leaf: nn.Module, see: Callable[[str, int, Any], Any]) -> Iterator[None]:
    """While it lasts, `see(path, number, result)` is told of each call of a module within the leaf."""
    calls: Dict[str, int] = {}

    def hook(path: str) -> Callable:
        def told(_: nn.Module, __: Any, result: Any) -> None:
            number = calls[path] = calls.get(path, -1) + 1
            see(path, number, result)
        return told

    hooks = [module.register_forward_hook(hook(path)) for path, module in leaf.named_modules() if path]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


@dataclass(eq=False)
class Step:
    """One call: of a leaf, or of a function of PyTorch."""

    call: Callable
    leaf: Optional[str]  # its qualified name
    arguments: List[Any]  # leaves of (args, kwargs); Value and Attribute stand for tensors
    spec: pytree.TreeSpec
    outputs: List[Tuple[int, int]]  # (place among the leaves of the result, value)
    changed: List[Tuple[int, int]]  # (value, value): what the first was before it was changed in place
    grad: bool
    autocast: Optional[Tuple[str, bool, torch.dtype]]
    inner: List["Inner"] = field(default_factory=list)  # of a leaf: what others read of that which it does not return
    flat: Optional[bool] = None

    def reads(self) -> List[int]:
        read = [leaf.index for leaf in self.arguments if isinstance(leaf, Value)]
        return list(dict.fromkeys(read + [before for before, _ in self.changed]))

    def makes(self) -> List[int]:
        return ([value for _, value in self.outputs] + [after for _, after in self.changed]
                + [inner.value for inner in self.inner])

    def reading(self, arguments: List[Any]) -> "Step":
        """The same step with other leaves of its arguments."""
        return replace(self, arguments=arguments)

    def is_flat(self) -> bool:
        """Whether it takes positional arguments alone, and no lists: most do, and need not be put together."""
        if self.flat is None:
            args, kwargs = pytree.tree_unflatten(list(range(len(self.arguments))), self.spec)
            self.flat = not kwargs and list(args) == list(range(len(self.arguments)))
        return self.flat

    def run(self, values: Dict[int, torch.Tensor]) -> None:
        """Takes what it reads from `values`, and puts what it makes there."""
        filled = [
            values[leaf.index] if isinstance(leaf, Value) else leaf.get() if isinstance(leaf, Attribute) else leaf
            for leaf in self.arguments
        ]
        if getattr(self.call, "__name__", "") in FOR_BACKWARD and not filled[0].requires_grad:
            return  # in an evaluation there is no backward
        args, kwargs = (filled, {}) if self.is_flat() else pytree.tree_unflatten(filled, self.spec)
        if self.grad and self.autocast is None and not self.inner:
            result = self.call(*args, **kwargs)
        else:
            with self.modes(), self.looking_inside(values):
                result = self.call(*args, **kwargs)
        if self.outputs:
            leaves = [result] if isinstance(result, torch.Tensor) else pytree.tree_leaves(result)
            for place, value in self.outputs:
                values[value] = leaves[place]
        for before, after in self.changed:
            values[after] = values[before]

    @contextlib.contextmanager
    def looking_inside(self, values: Dict[int, torch.Tensor]) -> Iterator[None]:
        if not self.inner:
            yield
            return
        seen: Dict[Tuple[str, int], list] = {}
        with seeing_results(self.call, lambda path, number, result: seen.update({(path, number): result})):
            yield
        values.update((inner.value, pytree.tree_leaves(seen[inner.path, inner.number])[inner.place])
                      for inner in self.inner)

    @contextlib.contextmanager
    def modes(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if not self.grad:
                stack.enter_context(torch.no_grad())
            if self.autocast is not None:
                kind, enabled, dtype = self.autocast
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))
            yield


@dataclass
class Program:
    """The steps of one forward."""

    steps: List[Step] = field(default_factory=list)
    entries: List[Tuple[str, int]] = field(default_factory=list)  # (name of a module, the step that it begins with)
    inputs: List[int] = field(default_factory=list)  # values that are the sample's tensors
    detached: List[str] = field(default_factory=list)  # leaves that let no gradient through, and have no parameters
    result: List[Any] = field(default_factory=list)  # leaves of what the model returns
    metas: Dict[int, torch.Tensor] = field(default_factory=dict)  # of each value, a tensor without data
    counting: Dict[int, str] = field(default_factory=dict)  # by id, names of buffers that a forward changes
    outside: set = field(default_factory=set)  # those of these names that are changed outside of leaves
    result_spec: Optional[pytree.TreeSpec] = None
    input_spec: Optional[pytree.TreeSpec] = None


# Functions whose answer leaves PyTorch's world: what the model does next depends on numbers of the sample.
DECIDES = {"__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "item", "tolist", "numpy",
           "equal", "allclose", "is_nonzero"}

PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, slice, range, Enum,
         torch.memory_format, torch.Generator, nn.Module, type, type(Ellipsis), types.FunctionType,
         types.BuiltinFunctionType, types.MethodType, functools.partial, torch.Size, numbers.Number)


def changed_by(name: str, args: tuple, kwargs: dict) -> Any:
    """What a function of PyTorch changes in place, by its name: x.add_(y), x += y, x[0] = y, torch.add(x, y, out=z)."""
    in_place = re.fullmatch("[a-z](.*[^_])?_|__setitem__|__i[a-z]+__", name)
    return kwargs.get("out") if kwargs.get("out") is not None else args[0] if in_place and args else None


class DecidesByNumbers(WeirError):
    """What a model does next depends on numbers in a tensor."""


def is_detached(module: nn.Module, arguments: List[Any], result: Any) -> bool:
    """Whether a leaf without parameters reads what needs gradients and returns what needs none, as rotary embeddings,
    which are handed activations for the sake of their type alone."""
    def asks(leaves: List[Any]) -> bool:
        return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)

    return next(module.parameters(), None) is None and asks(arguments) and not asks(pytree.tree_leaves(result))


def autocast_state(kind: str) -> Tuple[str, bool, torch.dtype]:
    return kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)


def random_state(kind: str) -> List[torch.Tensor]:
    states = [torch.get_rng_state()]
    if kind == "cuda":
        states.append(torch.cuda.get_rng_state())
    return states


class Recorder(TorchFunctionMode):
    """Sees what modules compute outside of leaves, and writes it down."""

    def __init__(self, model: nn.Module, leaves: Dict[str, nn.Module], kind: str, exported: bool, live: frozenset):
        super().__init__()
        self.model, self.exported, self.live = model, exported, live
        self.changes_buffer = False  # whether the last call did
        self.program = Program()
        self.kind = kind
        self.ambient = autocast_state(kind)
        self.leaf_names = {id(uncompiled(module)): name for name, module in reversed(list(leaves.items()))}
        self.names = {id(module): name for name, module in reversed(list(model.named_modules(remove_duplicate=False)))}
        self.calls: Dict[str, int] = {}
        self.stack: List[Tuple[str, nn.Module]] = []  # modules that are being run
        self.originals = callers(model)
        self.sample: set = set()  # ids of the sample's tensors
        self.alive: Dict[int, Tuple[torch.Tensor, int]] = {}  # id: the tensor (so that its id stays its own), its value
        self.versions: Dict[int, int] = {}  # of these tensors, when they were looked at last
        self.asked: Dict[int, bool] = {}  # whether they needed gradients when they were made
        self.count = 0
        self.inner: Dict[int, Tuple[Any, int, Step, Inner]] = {}  # of leaves, by id: a weak reference, version, whose
        self.changed_constants: Dict[int, torch.Tensor] = {}  # by their storage
        self.attributes: Dict[int, Attribute] = {}
        for prefix, owner in model.named_modules():
            for key, tensor in [*owner._parameters.items(), *owner._buffers.items()]:
                if tensor is not None:
                    name = f"{prefix}.{key}" if prefix else key
                    self.attributes.setdefault(id(tensor), Attribute(owner, key, name))
        # Modules within leaves are not looked at: what they do runs as it is.
        within = {id(inner) for leaf in leaves.values() for inner in leaf.modules()}
        self.began_with = [(attribute, attribute.get()) for attribute in self.attributes.values()
                           if id(attribute.owner) not in within]

    # Tensors and values

    def value(self, tensor: torch.Tensor) -> int:
        """A new value, which is what `tensor` is from now on."""
        index = self.count
        self.count += 1
        self.alive[id(tensor)] = (tensor, index)
        self.versions[id(tensor)] = tensor._version
        self.asked[id(tensor)] = tensor.requires_grad
        self.program.metas[index] = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta",
                                                requires_grad=tensor.requires_grad)
        return index

    def is_live(self, leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and (id(leaf) in self.alive or isinstance(leaf, nn.Parameter)
                                                   or self.is_inner(leaf) or self.is_of_changed(leaf)
                                                   or (id(leaf) in self.attributes and
                                                       (leaf.is_meta or self.attributes[id(leaf)].name in self.live)))

    def is_of_changed(self, tensor: torch.Tensor) -> bool:
        """Whether it has the memory of a constant that a step has changed in place."""
        return bool(self.changed_constants) and tensor.untyped_storage()._cdata in self.changed_constants

    def is_inner(self, tensor: torch.Tensor) -> bool:
        reference, version = self.inner[id(tensor)][:2] if id(tensor) in self.inner else (lambda: None, 0)
        return reference() is tensor and tensor._version == version

    def brought_out(self, tensor: torch.Tensor) -> Value:
        """A tensor of within a leaf, which its step gives from now on."""
        _, _, step, inner = self.inner.pop(id(tensor))
        inner = replace(inner, value=self.value(tensor))
        step.inner.append(inner)
        return Value(inner.value)

    def where(self) -> str:
        name = self.stack[-1][0] if self.stack else ""
        return f"the forward of {name}" if name else "the model's own forward"

    def or_less_deeply(self) -> str:
        """The depth at which the module that is being run is not taken apart."""
        path = plain_name(self.stack[-1][0]).split(".") if self.stack and self.stack[-1][0] else []
        modules = dict(self.model.named_modules())
        above = [modules.get(".".join(path[:end])) for end in range(1, len(path) + 1)]
        depth = sum(not isinstance(module, LISTS) for module in above)
        return f", or leave this module whole (depth={depth})" if depth else ""

    def reference(self, leaf: Any, what: str) -> Any:
        """What stands in a step for an argument."""
        if isinstance(leaf, torch.Tensor):
            if id(leaf) in self.alive and self.asked[id(leaf)] == leaf.requires_grad:
                return Value(self.alive[id(leaf)][1])
            if id(leaf) in self.attributes:
                return self.attributes[id(leaf)]
            if self.is_inner(leaf):
                return self.brought_out(leaf)
            if self.is_of_changed(leaf):
                raise refusal(f"{self.where()}: {what} reads a view of a tensor that was changed in place after the view "
                              "was made; make the view anew, or a copy (clone())")
            self.check_constant(leaf, what)
            if leaf.requires_grad:
                raise refusal(f"{self.where()}: {what} reads a tensor that no step and no parameter of the model has "
                              "made (hidden in an object, or made by a torch.autograd.Function between modules); "
                              "let a module of its own make it, or take fewer modules apart (depth)")
            return leaf
        if not isinstance(leaf, PLAIN):
            raise refusal(f"{self.where()}: {what} is handed an object of class {type(leaf).__name__}, which cannot be "
                          "carried from stage to stage; hand modules tensors, numbers, tuples, lists and dictionaries")
        return leaf

    # Steps

    def modified(self) -> List[int]:
        """Ids of tensors that were changed in place since this was asked last."""
        changed = []
        for key, (tensor, _) in self.alive.items():
            if tensor._version != self.versions[key]:
                self.versions[key] = tensor._version
                changed.append(key)
        return changed

    @contextlib.contextmanager
    def noting_counts(self, tensors: List[Any], leaf: Optional[str]) -> Iterator[None]:
        """Which buffers among these a call changes, such as running means."""
        buffers = [(tensor, tensor._version) for tensor in tensors
                   if id(tensor) in self.attributes and not isinstance(tensor, nn.Parameter)]
        yield
        changed = [buffer for buffer, version in buffers if buffer._version != version]
        names = {id(buffer): self.attributes[id(buffer)].name for buffer in changed}
        self.program.counting.update(names)
        self.program.outside.update(names.values() if leaf is None else ())
        self.changes_buffer = bool(changed)

    @contextlib.contextmanager
    def noting_inner(self, step: Step) -> Iterator[None]:
        """What modules within a leaf return, for somebody may bring it out. A compiled leaf has none to be seen."""
        if step.leaf is None or any(is_compiled(module) for module in step.call.modules()):
            yield
            return

        def note(path: str, number: int, result: Any) -> None:
            for place, tensor in enumerate(pytree.tree_leaves(result)):
                if isinstance(tensor, torch.Tensor):
                    inner = Inner(path, number, place, -1)
                    self.inner[id(tensor)] = weakref.ref(tensor), tensor._version, step, inner

        with seeing_results(step.call, note):
            yield

    def write_down(self, call: Callable, leaf: Optional[str], args: tuple, kwargs: dict, run: Callable,
                   keep: bool = False) -> Any:
        """Runs a call, and makes a step of it, if it makes anything or is to be kept for what else it does."""
        what = leaf or getattr(call, "__name__", str(call))
        flat, spec = pytree.tree_flatten((args, kwargs))
        references = [self.reference(argument, what) for argument in flat]
        constants = [(tensor, tensor._version) for tensor in references if isinstance(tensor, torch.Tensor)]
        autocast = autocast_state(self.kind)
        step = Step(call, leaf, references, spec, [], [], torch.is_grad_enabled(),
                    None if autocast == self.ambient else autocast)
        with self.noting_inner(step), self.noting_counts(list(step.call.buffers()) if leaf is not None else flat, leaf):
            result = run()
        keep = keep or self.changes_buffer
        if any(tensor._version != version for tensor, version in constants):
            raise refusal(f"{self.where()}: {what} changes a tensor in place that no step has made, so that the next "
                          "micro-batch would find it changed; give it a copy (clone())")
        for key in self.modified():
            tensor, before = self.alive[key]
            if key in self.sample:
                raise refusal(f"{self.where()}: {what} changes the model's input in place, so that a second run would "
                              "not see the same data; give it a copy (x.clone()), or set inplace=False")
            step.changed.append((before, self.value(tensor)))
        for place, tensor in enumerate(pytree.tree_leaves(result)):
            if isinstance(tensor, torch.Tensor) and id(tensor) not in self.attributes:
                step.outputs.append((place, self.value(tensor)))
        if leaf is not None and is_detached(call, flat, result):
            self.program.detached.append(leaf)
        if leaf is not None or keep or step.makes():
            self.program.steps.append(step)
        return result

    def check_constant(self, constant: torch.Tensor, what: str) -> None:
        if constant.is_meta:
            raise refusal(f"{self.where()}: {what} reads a constant that was made on the meta device, where it has no "
                          "values, since a hook has brought a tensor out of a layer, or a device is named: make the model "
                          "with its values")

    def make_anew(self, constant: torch.Tensor, before: torch.Tensor) -> None:
        """A constant that is changed in place is a value, which each run makes of what it was before."""
        self.check_constant(before, "a change in place")
        self.changed_constants[constant.untyped_storage()._cdata] = constant
        spec = pytree.tree_structure(((before,), {}))
        outputs = [(0, self.value(constant))]
        self.program.steps.append(Step(torch.clone, None, [before], spec, outputs, [], torch.is_grad_enabled(), None))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flat = pytree.tree_leaves((args, kwargs))
        name = getattr(func, "__name__", "")
        target = changed_by(name, args, kwargs)
        is_constant = isinstance(target, torch.Tensor) and not self.is_live(target) and id(target) not in self.attributes
        before = target.detach().clone() if is_constant else None
        if not any(self.is_live(leaf) for leaf in flat):
            return self.run_constant(func, args, kwargs, target, before)
        if name in DECIDES:
            raise DecidesByNumbers(f"{self.where()} decides by the numbers in a tensor (Tensor.{name} in {caller()}), so "
                                   "that its steps depend on the data; put these lines into an nn.Module of their own, "
                                   f"which is run as it is{self.or_less_deeply()}")
        if before is not None:
            self.make_anew(target, before)
        return self.write_down(func, None, args, kwargs, lambda: called(func, args, kwargs), keep=name in FOR_BACKWARD)

    def run_constant(self, func: Callable, args: tuple, kwargs: dict, target: Any, before: Any) -> Any:
        """A call that reads neither sample nor parameters: a step if it draws random numbers or changes a buffer.
        `target` is what it changes in place, if anything, and `before` what a constant was then."""
        random_before = random_state(self.kind)
        flat = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if id(leaf) in self.attributes]
        with self.noting_counts(flat, None):
            result = func(*args, **kwargs)
        drew = any(not torch.equal(a, b) for a, b in zip(random_before, random_state(self.kind)))
        if drew or self.changes_buffer:
            if before is not None:
                self.make_anew(target, before)
            return self.write_down(func, None, args, kwargs, lambda: result, keep=True)
        return result

    # Modules

    def call_module(self, original: Callable, module: nn.Module, args: tuple, kwargs: dict) -> Any:
        """In place of module(*args, **kwargs)."""
        inner = uncompiled(module)
        leaf = self.leaf_names.get(id(inner))
        name = leaf if leaf is not None else self.names.get(id(module))
        if name is None or (self.stack and self.stack[-1][1] is inner):  # not of the model, or super().__call__
            return original(module, *args, **kwargs)
        self.calls[name] = self.calls.get(name, 0) + 1
        numbered = name if self.calls[name] == 1 else f"{name}@{self.calls[name]}"
        self.program.entries.append((numbered, len(self.program.steps)))
        self.stack.append((numbered, inner))
        try:
            if leaf is not None:
                args, kwargs = without_caches((args, kwargs))
                with self.paused():
                    return self.write_down(module, numbered, args, kwargs, lambda: called(module, args, kwargs))
            if inner is not module:  # the wrapper of torch.compile would compile what we want to see
                return inner(*args, **kwargs)
            return original(module, *args, **kwargs)
        finally:
            self.stack.pop()

    def apply_function(self, function: type, *args: Any, **kwargs: Any) -> Any:
        """In place of function.apply(*args): one step, since its backward is not that of the steps inside."""
        with self.paused():
            return self.write_down(function.apply, None, args, kwargs, lambda: called(function.apply, args, kwargs))

    @contextlib.contextmanager
    def seeing(self) -> Iterator[None]:
        """While it lasts, functions of PyTorch and calls of the model's modules go through this recorder."""

        def seen(original: Callable) -> Callable:
            return lambda module, *args, **kwargs: self.call_module(original, module, args, kwargs)

        apply = torch.autograd.Function.__dict__["apply"]
        places = [(base, "__call__", original, seen(original)) for base, original in self.originals.items()]
        places.append((torch.autograd.Function, "apply", apply, classmethod(self.apply_function)))
        self.enter = lambda: [setattr(base, key, ours) for base, key, _, ours in places]
        self.leave = lambda: [setattr(base, key, original) for base, key, original, _ in places]
        self.enter()
        try:
            with self, said_exported(self.exported):
                yield
        finally:
            self.leave()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A leaf sees nothing of ours: it may be compiled, or have modes of its own."""
        self.__exit__(None, None, None)
        self.leave()
        try:
            with said_exported(False):
                yield
        finally:
            self.enter()
            self.__enter__()


@contextlib.contextmanager
def said_exported(exported: bool) -> Iterator[None]:
    """What torch.compiler.is_exporting() tells a model while it lasts. One that is exported leaves no work out because
    of numbers that it has looked at, such as a mask of nothing but ones."""
    compiler = torch.compiler
    before = compiler._is_compiling_flag, compiler._is_exporting_flag
    if exported != before[1]:
        compiler._is_compiling_flag = compiler._is_exporting_flag = exported
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = before


def callers(model: nn.Module) -> Dict[type, Callable]:
    """The classes of the model's modules that say what calling them means."""
    classes = {base for module in model.modules() for base in type(module).__mro__ if issubclass(base, nn.Module)}
    return {base: base.__dict__["__call__"] for base in classes if "__call__" in base.__dict__}


def caller() -> str:
    """File and line of the innermost frame outside of PyTorch and of this package."""
    frame = sys._getframe(1)
    here = __file__.rsplit("/", 1)[0]
    inside = torch.__file__.rsplit("/", 1)[0]
    while frame.f_back is not None and frame.f_code.co_filename.startswith((here, inside)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}, line {frame.f_lineno}"


def without_caches(what: Any) -> Any:
    """Models of transformers keep keys and values for generation unless told otherwise, and hand that on. Training has no
    use of them: what a layer would read there is what it has just made."""
    def is_cache(leaf: Any) -> bool:
        return type(leaf).__module__.startswith("transformers.") and "Cache" in type(leaf).__name__

    return pytree.tree_map(lambda leaf: None if is_cache(leaf) else leaf, what, is_leaf=is_cache)


@contextlib.contextmanager
def caches_off(model: nn.Module) -> Iterator[None]:
    """The same of a model that is run as it is."""
    configs = {id(module.config): module.config for module in model.modules()
               if getattr(getattr(module, "config", None), "use_cache", None) is True}
    try:
        for config in configs.values():
            config.use_cache = False
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


class Call(NamedTuple):
    """What a module is called with, both by position and by name."""

    args: tuple
    kwargs: dict


def call(*args: Any, **kwargs: Any) -> Call:
    """A sample of arguments by position and by name: weir.call(x, mask=m) for model(x, mask=m)."""
    return Call(args, kwargs)


def as_call(sample: Any) -> Tuple[tuple, dict]:
    """A sample is one tensor, a tuple or list of positional arguments, a dictionary of named ones, or call(...)."""
    if isinstance(sample, Call):
        return tuple(sample.args), dict(sample.kwargs)
    if isinstance(sample, torch.Tensor):
        return (sample,), {}
    if isinstance(sample, (tuple, list)):
        return tuple(sample), {}
    if isinstance(sample, dict) or hasattr(sample, "keys"):
        return (), {key: sample[key] for key in sample.keys()}
    raise refusal(f"sample is a {type(sample).__name__}, and must be a tensor, a tuple of positional arguments, a "
                  "dictionary of named ones, or both as weir.call(x, mask=m)")


def record(model: nn.Module, leaves: Dict[str, nn.Module], sample: Any, kind: str) -> Program:
    """Runs the model once on the sample; `kind` is the device's: cpu, cuda. One that decides by numbers is run again as
    if it were exported, and refused where it still does. One that changes buffers outside of leaves is run again with
    these as values, and not as constants, from the beginning."""
    live: frozenset = frozenset()
    exported = False
    while True:
        try:
            program = record_once(model, leaves, sample, kind, exported, live)
        except DecidesByNumbers:
            if exported:
                raise
            exported = True
            continue
        if program.outside <= live:
            if exported and not is_hollow(model):
                check_exported(model, sample)
            return program
        live |= program.outside


def check_exported(model: nn.Module, sample: Any) -> None:
    """Refuses a model that computes other numbers where it is exported; in eval mode, in which neither run draws."""
    args, kwargs = as_call(sample)
    modes = [(module, module.training) for module in model.modules()]

    def run(exported: bool) -> List[torch.Tensor]:
        with torch.no_grad(), said_exported(exported):
            leaves = pytree.tree_leaves(without_caches(model(*args, **kwargs)))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    try:
        for module, _ in modes:
            module.training = False
        plain, other = run(False), run(True)
    finally:
        for module, training in modes:
            module.training = training
    same = len(plain) == len(other) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-2, atol=1e-3, equal_nan=True) for a, b in zip(plain, other))
    if not same:
        raise refusal("the model decides by the numbers in a tensor, and computes others where it is told that it is "
                      "exported (torch.compiler.is_exporting()): put what decides into an nn.Module of its own")


def record_once(model: nn.Module, leaves: Dict[str, nn.Module], sample: Any, kind: str, exported: bool,
                live: frozenset) -> Program:
    recorder = Recorder(model, leaves, kind, exported, live)
    program = recorder.program
    args, kwargs = as_call(sample)
    flat, program.input_spec = pytree.tree_flatten((args, kwargs))
    recorder.sample = {id(leaf) for leaf in flat if isinstance(leaf, torch.Tensor)}
    program.inputs = [recorder.value(leaf) for leaf in flat if isinstance(leaf, torch.Tensor)]
    if not program.inputs:
        raise refusal("sample holds no tensor: hand what a micro-batch gives the model")
    with torch.enable_grad(), recorder.seeing():
        result = without_caches(model(*args, **kwargs))
    for attribute, tensor in recorder.began_with:
        if attribute.get() is not tensor:
            raise refusal(f"the forward puts another tensor in the place of {attribute.name}, which stages would not do: "
                          "change it in place (copy_, add_), or in a module that is not taken apart (depth)")
    leaves_out, program.result_spec = pytree.tree_flatten(result)
    program.result = [recorder.reference(leaf, "what it returns") for leaf in leaves_out]
    return program
