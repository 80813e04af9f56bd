"""From times and bytes of parts to the profile document (docs/formats/profile.md)."""

from dataclasses import dataclass
from typing import Any, Dict, List, Set, Tuple

import torch

from .leaves import uncompiled
from .memory import Bytes, bytes_of
from .parts import Part, Parts
from .times import Times, spread

DTYPES = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def dtype_of(parts: Parts) -> str:
    """That of most parameters' numbers."""
    counts: Dict[str, int] = {}
    for parameter in parts.model.parameters():
        name = DTYPES.get(parameter.dtype, "fp8" if parameter.element_size() == 1 else "fp32")
        counts[name] = counts.get(name, 0) + parameter.numel()
    return max(counts, key=lambda name: counts[name])


def kind_of(part: Part) -> str:
    """Classes of what it calls, each once."""
    classes = [type(uncompiled(step.call)).__name__ for step in part.steps if step.leaf is not None]
    return ", ".join(dict.fromkeys(classes)) or "functions"


def owned_parameters(parts: Parts) -> List[List[torch.nn.Parameter]]:
    """By part, what no part before it reads."""
    seen: Set[int] = set()
    owned = []
    for part in parts:
        mine = [parameter for parameter in part.parameters.values() if id(parameter) not in seen]
        seen.update(id(parameter) for parameter in mine)
        owned.append(mine)
    return owned


def shape_of(parameter: torch.nn.Parameter) -> List[int]:
    """As a matrix; a vector has one column."""
    rows = parameter.shape[0] if parameter.dim() else 1
    return [rows, max(1, parameter.numel() // max(1, rows))]


@dataclass
class Dispatch:
    """What the runtime takes for an action, `ns`, of each of `stages` stages. A document has no place for what a stage
    pays once, so that layers share it, alike: a stage of an average number of layers has it just once."""

    stages: int
    ns: int

    def share(self, layers: int) -> int:
        return self.ns * self.stages // layers


def times_of(times: Times, place: int, share: int) -> Dict[str, Any]:
    """Medians and spreads; `share` of the runtime's time is added to each but R, which is within a backward."""
    spreads = {phase: [ns + share if samples[place] and phase != "recompute" else ns for ns in spread(samples[place])]
               for phase, samples in times.samples.items()}
    found = {f"{phase}_ns": spreads[phase][1] for phase in spreads}
    if place in times.unsplit:  # halves are a guess
        found["backward_weight_ns"] = found["backward_ns"] // 2
        found["backward_input_ns"] = found["backward_ns"] - found["backward_weight_ns"]
    found["spread"] = {phase: spreads[phase] for phase in spreads if times.samples[phase][place]}
    return found


def own_bytes(book: Bytes, kept: Set[int], storages: Dict[int, int]) -> int:
    """Bytes of storages that are a part's own: outputs that a reader keeps as its input are charged there, but for what
    such an output's storage has beyond what is handed on of it (a slice of a larger tensor)."""
    read = {storage: whole - handed for value, (storage, whole, handed) in book.outputs.items() if value in kept}
    return sum(read.get(storage, size) for storage, size in {**storages, **read}.items())


def handed_on(parts: Parts, books: List[Bytes], source: int, reader: int) -> int:
    return sum(books[source].outputs[value][2] for value in parts[reader].inputs if value in books[source].outputs)


def layer_of(parts: Parts, books: List[Bytes], times: Times, flops: List[int], place: int, mine: list,
             kept: Set[int], share: int) -> Dict[str, Any]:
    part, book, found = parts[place], books[place], times_of(times, place, share)
    spreads = found.pop("spread")
    layer = {"name": part.name, "kind": kind_of(part), **found}
    layer.update({
        "parameter_bytes": sum(bytes_of(parameter) for parameter in mine),
        "output_bytes": book.output,
        "saved_bytes": own_bytes(book, kept, book.saved),
        "input_kept": book.input_kept,
        "held_for_weight_bytes": own_bytes(book, kept, book.held),
        "workspace_bytes": book.workspace,
        "backward_workspace_bytes": book.backward_workspace,
        "flops": flops[place],
    })
    if mine:
        layer["shapes"] = [shape_of(parameter) for parameter in mine]
    layer["spread"] = spreads
    sends = [[reader, handed_on(parts, books, place, reader)] for source, reader in parts.edges() if source == place]
    layer["sends"] = [pair for pair in sends if pair[1] != book.output]
    if not layer["sends"]:
        del layer["sends"]
    return layer


def document_of(parts: Parts, books: List[Bytes], times: Times, flops: List[int], head: Dict[str, Any],
                source: Dict[str, Any], dispatch: Dispatch, notes: str) -> Dict[str, Any]:
    """The document; `head` has model and micro_batch, `source` device, clock and repeats."""
    kept = {value for book in books for value in book.kept_inputs}
    owned = owned_parameters(parts)
    share = dispatch.share(len(parts))
    layers = [layer_of(parts, books, times, flops, place, owned[place], kept, share) for place in range(len(parts))]
    document = {
        "format": "weir.profile",
        "version": 1,
        "model": head["model"],
        "micro_batch": head["micro_batch"],
        "dtype": dtype_of(parts),
        "source": {
            "how": "measured",
            **source,
            "sum_ns": sum(layer["forward_ns"] + layer["backward_ns"] for layer in layers),
            "whole_ns": spread(times.whole)[1] + 2 * dispatch.stages * dispatch.ns,  # its F and its B, of each stage
            "backward_split": "assumed" if times.unsplit else "measured",
        },
        "layers": layers,
        "edges": [list(edge) for edge in parts.edges()],
    }
    if parts.tied():
        document["tied"] = [list(pair) for pair in parts.tied()]
        document["one_owner"] = [list(pair) for pair in one_owner_pairs(parts, owned)]
        if not document["one_owner"]:
            del document["one_owner"]
    if parts.no_cut_after():
        document["no_cut_after"] = parts.no_cut_after()
    document["notes"] = notes
    return document


def one_owner_pairs(parts: Parts, owned: List[List[torch.nn.Parameter]]) -> List[Tuple[int, int]]:
    """Tied pairs in which the first part owns what they share."""
    ids = [{id(parameter) for parameter in mine} for mine in owned]
    return [(one, other) for one, other in parts.tied()
            if ids[one].intersection(id(parameter) for parameter in parts[other].parameters.values())]
