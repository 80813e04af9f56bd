"""Which modules of a model are run whole, and which are taken apart.

A *leaf* is a module that a part calls as it is. Every other module is entered: its children are leaves or entered in
turn, and what it computes between them belongs to the part that ran last.
"""

from typing import Dict, List, Optional

from torch import nn

from .errors import refusal

# Lists hold modules and have no forward of their own; an nn.Sequential (but no class derived from it, which is a
# block that somebody has named) is a list with one.
LISTS = (nn.ModuleList, nn.ModuleDict)


def is_list(module: nn.Module) -> bool:
    return isinstance(module, LISTS) or type(module) is nn.Sequential


def uncompiled(module: nn.Module) -> nn.Module:
    """The module that torch.compile(module) wraps."""
    return getattr(module, "_orig_mod", module)


def is_compiled(module: nn.Module) -> bool:
    """By torch.compile(module) or module.compile()."""
    return uncompiled(module) is not module or getattr(module, "_compiled_call_impl", None) is not None


def holds_blocks(module: nn.Module) -> bool:
    """Whether there is a list of two or more modules in it, or below it."""
    return (is_list(module) and len(module) > 1) or any(holds_blocks(child) for child in module.children())


def by_blocks(module: nn.Module, name: str, leaves: Dict[str, nn.Module]) -> None:
    """Members of lists are leaves (a list in a list is entered), and so is every module without lists."""
    for child_name, child in module.named_children():
        path = name + child_name
        if is_list(child) or (not is_list(module) and uncompiled(child) is child and holds_blocks(child)):
            by_blocks(child, path + ".", leaves)
        else:
            leaves[path] = child


def by_depth(module: nn.Module, name: str, depth: int, leaves: Dict[str, nn.Module]) -> None:
    """Modules `depth` levels below the model. A ModuleList computes nothing, and is no level."""
    for child_name, child in module.named_children():
        path = name + child_name
        if isinstance(child, LISTS):
            by_depth(child, path + ".", depth, leaves)
        elif depth > 1 and uncompiled(child) is child and next(child.children(), None) is not None:
            by_depth(child, path + ".", depth - 1, leaves)
        else:
            leaves[path] = child


def plain_name(name: str) -> str:
    """block.3 of "block.3@2", the second time that it runs."""
    return name.partition("@")[0]


def split_leaves(model: nn.Module, names: List[str], leaves: Dict[str, nn.Module]) -> Dict[str, nn.Module]:
    """Enters what has a named module in it, and makes the named ones that have none leaves."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for name in names:
        if plain_name(name) not in modules or name == "":
            raise refusal(f"split_at: the model has no module {name!r} (model.named_modules() lists them)")
    entered = {""}
    for name in names:
        above = plain_name(name).split(".")[:-1]
        entered.update(".".join(above[:end]) for end in range(1, len(above) + 1))
    named = {plain_name(name) for name in names} - entered
    chosen = {}
    for path, module in modules.items():
        above = path.split(".")[:-1]
        inside = any(".".join(above[:end]) in chosen for end in range(1, len(above) + 1))
        parent = ".".join(above)
        if path == "" or inside or path in entered or isinstance(module, LISTS):
            continue
        whole = parent in entered and not any(leaf.startswith(path + ".") for leaf in leaves)
        if path in named or path in leaves or whole:
            chosen[path] = module
    return chosen


def choose_leaves(model: nn.Module, depth: Optional[int], split_at: Optional[List[str]]) -> Dict[str, nn.Module]:
    """Leaves by qualified name; the model itself, as "", if it has no children."""
    leaves: Dict[str, nn.Module] = {}
    if depth is not None:
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise refusal(f"depth is {depth!r}, and must be a whole number from 1: the model's children")
        by_depth(model, "", depth, leaves)
    else:
        by_blocks(model, "", leaves)
    if split_at is not None:
        leaves = split_leaves(model, split_at, leaves)
    return leaves or {"": model}
