"""Of a plan's schedule, the pipes that PyTorch can run: each has one copy of every stage.

Replicas that each have a rank of their own for every stage make as many pipes, which meet
only when gradients are averaged; each runs its own micro-batches by the very order of the
schedule:

    micro-batch  0 2 4 ..   rank 0 -> rank 2      pipe 0
    micro-batch  1 3 5 ..   rank 1 -> rank 3      pipe 1
"""

import csv
import dataclasses
import io
import json
import re
from typing import Any, Union

from ..documents import Plan, Schedule
from ..capture.errors import refusal

_COMPUTE = re.compile(r"\((\d+)F(\d+);(\d+)([BIW])(\d+)\)OVERLAP_F_B|(\d+)([FBIW])(\d+)")


@dataclasses.dataclass(frozen=True)
class Pipe:
    """Ranks that hold each stage once, and what they do, in cells of PyTorch's CSV, a row for each of `ranks`."""

    ranks: tuple[int, ...]
    rank_of: tuple[int, ...]  # for each stage, by its place in `ranks`
    name: str  # of the schedule
    micro_batches: tuple[int, ...]  # which of the iteration's it does, as its last stage gets them; it counts from 0
    csv: str

    def cells(self) -> list[list[str]]:
        """What each rank does, in order, without idle steps."""
        return [[cell for cell in row if cell] for row in csv.reader(io.StringIO(self.csv))]

    def splits_backward(self) -> bool:
        """Whether any backward is done as I and W."""
        return bool(re.search(r"\dI\d", self.csv))

    def has_backward(self) -> bool:
        return bool(re.search(r"\d[BI]\d", self.csv))

    def forwards(self) -> "Pipe":
        """The same without backwards. Where two actions overlap, its forward is done alone."""
        rows = [[re.sub(r"\((\d+F\d+);.*", r"\1", cell) for cell in row if re.search(r"\dF\d", cell)]
                for row in self.cells()]
        width = max(len(row) for row in rows)
        text = "".join(",".join(row + [""] * (width - len(row))) + "\n" for row in rows)
        return dataclasses.replace(self, csv=text)


def as_schedule(what: Union[Schedule, str, dict]) -> Schedule:
    """A Schedule, its document (text or dict) or PyTorch's CSV, as a Schedule."""
    if isinstance(what, Schedule):
        return what
    if isinstance(what, dict):
        return Schedule.from_json(json.dumps(what))
    return Schedule.from_json(what) if what.lstrip().startswith("{") else Schedule.from_csv(what)


def cut_pipes(plan: Plan, schedule: Union[Schedule, str, dict, None] = None) -> list[Pipe]:
    """The pipes of a plan, in its own order or in another that fits its stages, such as a searched one."""
    order = (plan.schedule() if schedule is None else as_schedule(schedule)).document
    _check_belongs(order, plan.document)
    ranks = [tuple(sorted(set(route))) for route in order["routes"]]
    if len(set().union(*ranks)) != sum(len(of_route) for of_route in ranks):
        raise refusal(_why_shared(order))
    pipes = [_pipe(order, number, of_route) for number, of_route in enumerate(ranks)]
    counts = {len(pipe.micro_batches) for pipe in pipes}
    if len(counts) != 1:
        raise refusal(f"{order['micro_batches']} micro-batches do not go evenly into {len(pipes)} replicas, whose "
                      f"gradients would be averaged with wrong weights: plan for a multiple of {len(pipes)}")
    return pipes


def _check_belongs(order: dict, plan: dict) -> None:
    if order["weights"] != "flush":
        raise refusal(f"{order['name']} updates weights between micro-batches (weights {order['weights']}), and "
                      "PyTorch's runtime has one version of them: plan with a schedule that flushes, such as 1f1b")
    if order["stages"] != len(plan["stages"]):
        raise refusal(f"the schedule {order['name']} has {order['stages']} stages, and the plan {len(plan['stages'])}: "
                      "plan for its ranks and chunks")
    if order.get("splits", 1) != 1:
        raise refusal(f"{order['name']} splits its sequences, which PyTorch's runtime cannot: plan with 1f1b")
    if order.get("exchanges"):
        raise refusal(f"{order['name']} has messages from a rank to itself, which PyTorch's runtime has not: plan with "
                      "1f1b")


def _why_shared(order: dict) -> str:
    """Why routes that share ranks are no pipes."""
    routes = order["routes"]
    if all(sorted(route) == sorted(routes[0]) for route in routes):
        return (f"{order['name']} has two copies of each stage on the same ranks, and PyTorch's runtime has one of "
                "each: plan with zb-v or dualpipev")
    counts = [len({route[stage] for route in routes}) for stage in range(order["stages"])]
    return (f"the stages have {', '.join(map(str, counts))} replicas, and PyTorch's runtime needs as many of each: "
            f"plan with replicas={[min(counts)] * len(counts)}")


def _pipe(order: dict, route: int, ranks: tuple[int, ...]) -> Pipe:
    rank_of = tuple(ranks.index(rank) for rank in order["routes"][route])
    micro_batches = _as_they_end(order["actions"][ranks[rank_of[-1]]], order["stages"] - 1)
    number_of = {mb: number for number, mb in enumerate(micro_batches)}
    document = {"format": "weir.schedule", "version": order["version"], "name": order["name"], "weights": "flush",
                "ranks": len(ranks), "stages": order["stages"], "micro_batches": len(micro_batches),
                "routes": [list(rank_of)], "route_of": [0] * len(micro_batches),
                "actions": [_compute_actions(order["actions"][rank], number_of) for rank in ranks]}
    return Pipe(ranks, rank_of, order["name"], micro_batches, Schedule.from_json(json.dumps(document)).csv())


def _as_they_end(actions: str, last: int) -> tuple[int, ...]:
    """The micro-batches as the last stage forwards them: PyTorch's runtime takes their losses to come by number."""
    return tuple(int(number) for number in re.findall(rf"(?<!\d){last}F(\d+)", actions))


def _compute_actions(actions: str, number_of: dict[int, int]) -> str:
    """A rank's forwards and backwards, by the pipe's own count of micro-batches. PyTorch adds the messages itself."""
    if re.search(r"\dR\d", actions):
        raise refusal("the schedule has recomputations (R) as actions of their own, which PyTorch's runtime has not: "
                      "leave them out; a plan's segments are recomputed by their backwards")

    def renumber(match: Any) -> str:
        if match[1]:
            return f"({match[1]}F{number_of[int(match[2])]};{match[3]}{match[4]}{number_of[int(match[5])]})OVERLAP_F_B"
        return f"{match[6]}{match[7]}{number_of[int(match[8])]}"

    return " ".join(_COMPUTE.sub(renumber, action) for action in actions.split() if _COMPUTE.fullmatch(action))
