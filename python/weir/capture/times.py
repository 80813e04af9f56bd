"""How long the parts take: F, B, I, W and R of each in place, and the whole model around.

    repeat   F0 F1 .. Fn  Bn .. B1 B0      F and B: cut parts, one after the other, as a pipeline of one rank runs them
             F0 F1 .. Fn  In .. I0  Wn .. W0
             F0 F1 .. Fn  Rn Bn .. R0 B0   (its F without gradients, as under recomputation)
             the model's own forward and backward

Each part finds the caches as the others have left them, as in training. Run alone several times over it looks quicker
(docs/decisions/020); what that comes to is measured as well, and said in the profile's notes.
"""

import gc
import statistics
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterator, List, Optional

import torch

from .clock import Clock
from .replay import Replay, Run, input_backward, takes_gradient, trained_parameters, weight_backward, whole_backward

PHASES = ("forward", "backward", "backward_input", "backward_weight", "recompute")
STEADY_PASSES, STEADY_PERCENT, MOST_PASSES = 5, 5, 15  # of warming up


@dataclass
class Times:
    """Samples in ns: by phase and part; of the whole model; and of all parts' F and B, each alone."""

    samples: Dict[str, List[List[int]]]
    whole: List[int] = field(default_factory=list)
    warm: List[int] = field(default_factory=list)
    unsplit: Dict[int, str] = field(default_factory=dict)  # parts whose backward PyTorch cannot split, and its reason


class Stopwatch:
    def __init__(self, replay: Replay, clock: Clock, whole: Optional[Callable[[], None]]):
        self.replay, self.clock, self.whole = replay, clock, whole
        self.times = new_times(len(replay.parts))

    def keep(self, phase: str, places: List[int], pairs: list) -> None:
        for place, ns in zip(places, self.clock.settle(pairs)):
            self.times.samples[phase][place].append(ns)

    def fused(self) -> None:
        pairs: list = []
        runs = self.replay.forward(lambda place, work: self.clock.timed(pairs, work))
        self.keep("forward", list(range(len(runs))), pairs)
        pairs, places = [], []

        def work(place: int, run: Run, roots: list) -> None:
            places.append(place)
            self.clock.timed(pairs, lambda: whole_backward(roots))

        self.replay.backward(runs, work)
        self.keep("backward", places, pairs)

    def split(self) -> None:
        """Parts that take no gradient do all in their W, as PyTorch's first stage does."""
        runs = self.replay.forward()
        input_pairs, input_places, later = [], [], []

        def work(place: int, run: Run, roots: list) -> None:
            if place in self.times.unsplit:
                whole_backward(roots)
            elif takes_gradient(run):
                input_places.append(place)
                groups = self.clock.timed(input_pairs, lambda: self.input_backward(place, run, roots))
                later.append((place, lambda: weight_backward(run, groups)))
            else:
                later.append((place, lambda: whole_backward(roots)))

        self.replay.backward(runs, work)
        weight_pairs: list = []
        for place, weights in later:
            if next(trained_parameters(runs[place]), None) is not None:
                self.clock.timed(weight_pairs, weights)
        self.keep("backward_input", input_places, input_pairs)
        self.keep("backward_weight", [place for place, _ in later
                                      if next(trained_parameters(runs[place]), None) is not None], weight_pairs)

    def input_backward(self, place: int, run: Run, roots: list) -> list:
        try:
            return input_backward(run, roots)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # a compiled part whose backward lends its buffers out cannot be run in halves
            self.times.unsplit[place] = str(error.__cause__ or error).strip().splitlines()[0]
            whole_backward(roots)
            return []

    def again(self) -> None:
        with torch.no_grad():
            runs = self.replay.forward()
        pairs: list = []
        places: list = []

        def renew(place: int, run: Run) -> None:
            places.append(place)
            inputs = self.replay.inputs_of(place, run.leaves)
            run.outputs, run.loss = self.clock.timed(pairs, lambda: self.replay.call(place, inputs))

        self.replay.backward(runs, lambda place, run, roots: whole_backward(roots), renew)
        self.keep("recompute", places, pairs)

    def alone(self) -> None:
        """F and B of each part right behind an untimed F and B of it: with warm caches."""
        with torch.no_grad():
            runs = self.replay.forward()
        pairs: list = []

        def renew(place: int, run: Run) -> None:
            self.replay.call(place, self.replay.inputs_of(place, run.leaves))
            inputs = self.replay.inputs_of(place, run.leaves)
            run.outputs, run.loss = self.clock.timed(pairs, lambda: self.replay.call(place, inputs))

        def work(place: int, run: Run, roots: list) -> None:
            if place not in self.times.unsplit:
                whole_backward(roots, keep_graph=True)
                for leaf in run.leaves:
                    leaf.grad = None
            self.clock.timed(pairs, lambda: whole_backward(roots))

        self.replay.backward(runs, work, renew)
        self.times.warm.append(sum(self.clock.settle(pairs)))

    def around(self) -> None:
        if self.whole is None:
            self.times.whole.append(sum(self.times.samples[phase][place][-1] for phase in ("forward", "backward")
                                        for place in range(len(self.replay.parts)) if self.times.samples[phase][place]))
            return
        pairs: list = []
        torch.clear_autocast_cache()
        self.clock.timed(pairs, self.whole)
        self.times.whole += self.clock.settle(pairs)

    def repeat(self, count: int) -> None:
        self.fused()
        self.split()
        self.again()
        self.around()
        if count % 4 == 0 and self.whole is not None:
            self.alone()
        gc.collect()

    def warm_up(self, most: int) -> None:
        """Until some passes in a row took about the same."""
        took: List[int] = []
        for count in range(most):
            self.repeat(count)
            took = (took + self.times.whole[-1:])[-STEADY_PASSES:]
            if len(took) == STEADY_PASSES and max(took) * 100 <= min(took) * (100 + STEADY_PERCENT):
                break
        unsplit = self.times.unsplit
        self.times = new_times(len(self.replay.parts))
        self.times.unsplit = unsplit


def new_times(count: int) -> Times:
    return Times({phase: [[] for _ in range(count)] for phase in PHASES})


@contextmanager
def frozen() -> Iterator[None]:
    """Collections leave out what is there by now. A caller's own freeze stays as it is."""
    is_frozen = gc.get_freeze_count() > 0
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()


def measure_times(replay: Replay, clock: Clock, whole: Optional[Callable[[], None]], repeats: int,
                  tell: Callable[..., None] = lambda line, important=False: None) -> Times:
    """Samples of all times; `whole` runs the model's own forward and backward, if there is one. Leaves gradients behind. `tell` is told
    between repeats how many are done."""
    watch = Stopwatch(replay, clock, whole)
    collecting = gc.isenabled()
    with frozen():
        gc.disable()
        try:
            tell("warming up", True)
            watch.warm_up(min(MOST_PASSES, repeats + 1))
            for count in range(repeats):
                watch.repeat(count)
                tell(f"{count + 1} of {repeats} repeats", count + 1 == repeats)
        finally:
            if collecting:
                gc.enable()
    return watch.times


def spread(samples: List[int]) -> List[int]:
    """[min, median, p95]; zeros of no samples."""
    if not samples:
        return [0, 0, 0]
    ordered = sorted(samples)
    return [ordered[0], round(statistics.median(ordered)), ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]]
