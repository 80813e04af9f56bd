"""A model's parts cut into stages: what crosses each cut, and what is recomputed.

A part is one layer of the profile: it reads values and makes values, and a value has a
number, whoever reads it. Where parts are cut into stages,

    stage 0         stage 1         stage 2
    a -> x          x -> y          x, y -> z
              x              x, y

all that was made in front of a cut and is read behind it crosses that cut, once, however
many parts read it. A stage talks to its neighbours only: what it does not need itself,
such as the input of a skip connection, it hands on.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from ..capture.parts import Part, Parts, parts
from ..capture.errors import refusal


@dataclasses.dataclass(frozen=True)
class Run:
    """Parts that are done together; `recomputed`: their backward does them again, from what they read."""

    parts: tuple[Part, ...]
    recomputed: bool


@dataclasses.dataclass(frozen=True)
class StageFlow:
    """What one stage does: its runs in order, the values it gets and those it hands on."""

    number: int
    runs: tuple[Run, ...]
    received: tuple[int, ...]
    returned: tuple[int, ...]


def take_apart(model: torch.nn.Module, sample: Any, plan: dict) -> Parts:
    """The model's parts as the plan's profile has named them."""
    names = [name for stage in plan["stages"] for name in stage["layers"]]
    root = type(model).__name__  # of a model that is one part, or whose first part begins before any module
    made = parts(model, sample, split_at=[name for name in names if name != root] or None)
    missing = [part.name for part in made if part.name not in names]
    if missing:
        raise refusal(f"the plan has no layer {missing[0]}, which the model has: profile and plan this very model")
    return made


def cut_stages(made: Parts, stages: Sequence[dict]) -> list[StageFlow]:
    """Cuts a model's parts into the stages of a plan's document (their `layers` and `recompute`)."""
    runs = [_runs_of(made, stage) for stage in stages]
    _check_views(made, stages, runs)
    reads = [{value for run in of_stage for part in run.parts for value in part.inputs} for of_stage in runs]
    known, cut = list(made.inputs), []
    for number, of_stage in enumerate(runs):
        received = cut[-1].returned if cut else tuple(known)
        for part in (part for run in of_stage for part in run.parts):
            if not set(part.inputs) <= set(known):
                raise refusal(f"layer {part.name} of stage {number} reads what a later layer makes: profile and plan "
                              "this very model")
            known += part.outputs
        behind = set(made.result).union(*reads[number + 1:])
        is_last = number == len(runs) - 1
        returned = tuple(made.result) if is_last else tuple(value for value in dict.fromkeys(known) if value in behind)
        cut.append(StageFlow(number, tuple(of_stage), received, returned))
    return cut


def _check_views(made: Parts, stages: Sequence[dict], runs: Sequence[Sequence[Run]]) -> None:
    """A view that has crossed a cut, or was copied for a recomputation, no longer sees what is changed in place."""
    place_of = {part.name: place for place, part in enumerate(made)}
    kept = set(made.no_cut_after())
    for stage in stages[:-1]:
        last = stage["layers"][-1]
        if place_of[last] in kept:
            raise refusal(f"stage {stage['stage']} of the plan ends with layer {last}, and a later layer changes in "
                          "place what was made before, so that no stage may end there: profile and plan this very "
                          "model")
    for run in (run for of_stage in runs for run in of_stage if run.recomputed):
        within = {value for part in run.parts for step in part.steps for value in step.makes()}
        for part in run.parts:
            for step in part.steps:
                if len({before for before, _ in step.changed} - within) > 1:
                    raise refusal(f"layer {part.name} changes in place a tensor that it reads, of which there is a "
                                  "view, and would change it again where it is recomputed: plan without recompute of "
                                  "it")


def _runs_of(made: Parts, stage: dict) -> list[Run]:
    """The stage's parts in order; a segment that is recomputed is one run, any other part is a run of its own."""
    by_name = {part.name: part for part in made}
    segment_of = {name: number for number, segment in enumerate(stage["recompute"]) for name in segment}
    runs: list[Run] = []
    last = None
    for name in stage["layers"]:
        if name not in by_name:
            raise refusal(f"stage {stage['stage']} of the plan has a layer {name}, which the model has not: its layers "
                          f"are {made[0].name} to {made[len(made) - 1].name}; profile and plan this very model")
        segment = segment_of.get(name)
        if segment is not None and segment == last:
            runs[-1] = Run(runs[-1].parts + (by_name[name],), True)
        else:
            runs.append(Run((by_name[name],), segment is not None))
        last = segment
    return runs
