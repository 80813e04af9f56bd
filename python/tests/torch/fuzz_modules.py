#!/usr/bin/env python3
"""Random modules in pipelines: each is right, or refused by a WeirError on every rank, and never silently wrong.

    fuzz_modules.py [--seed 0] [--count 100] [--keep-going] [--moves]

A seed draws a module, a schedule, whether stages are recomputed, and a situation: two steps accumulated, autocast
around build and step or around step alone, an evaluation between steps, something changed between them, train and eval
switched. Two processes over gloo run it, and compare losses, gradients, buffers and outputs with those of the unsplit
module, which does the same micro-batches one by one. Two processes stay alive for many modules. A failure is tried
again without each of its parts, and what is left is printed: the same seed draws the same module everywhere.

Outcomes: right; refused; silent (other numbers); crash (another exception, a hang, or a refusal on one rank alone);
unusable (the unsplit module itself fails, so that the generator is at fault). The modules are in drawn_modules.py.
"""

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import traceback
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Optional, Tuple

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."),
                os.path.dirname(os.path.abspath(__file__))]

RANKS, MICRO_BATCHES = 2, 4
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-v", "zb-h1")
SITUATIONS = ("nothing", "accumulate", "autocast", "autocast around step", "evaluate", "change", "mode")
MODULES_OF_A_PAIR = 40  # its process groups have sockets, which stay open
PATIENCE_S = 120  # for a module; most take half a second, and on a busy machine ten times that
LATE_S = 30  # for the other rank, once one has given up


# --- one case ------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Case:
    """What a seed draws besides the module."""

    seed: int
    schedule: str
    recompute: bool
    situation: str
    accumulates_twice: bool
    makes_mode: bool  # train
    learns: bool  # by plain SGD between steps
    respects_cuts: bool  # the profile says where no stage may end, as weir.profile does
    coarse: bool  # several blocks are one layer
    without: FrozenSet[int] = frozenset()  # moves that are left out

    @staticmethod
    def of(seed: int, without: Iterable[int] = ()) -> "Case":
        draw = random.Random(f"case {seed}")
        situation = draw.choice(SITUATIONS)
        return Case(seed, draw.choice(SCHEDULES), draw.random() < 0.4, situation, draw.random() < 0.5,
                    draw.random() < 0.75, draw.random() < 0.5, draw.random() < 0.8, draw.random() < 0.25,
                    frozenset(without))

    def __str__(self) -> str:
        words = [self.schedule, *(["recomputed"] if self.recompute else []), self.situation,
                 "made in train mode" if self.makes_mode else "made in eval mode",
                 *(["learns"] if self.learns else []), *(["coarse"] if self.coarse else []),
                 *([] if self.respects_cuts else ["cut anywhere"])]
        return ", ".join(words)


class Unusable(Exception):
    """The unsplit module fails."""


def plan_for(case: Case, drawn: Any, schedule: str) -> Dict[str, Any]:
    """The same on every rank, since no time is measured."""
    import weir
    from plans import profile_of, recomputed
    from weir.capture import parts
    made = parts(drawn.net, drawn.sample())
    names = [part.name for part in made]
    draw = random.Random(f"plan {case.seed}")
    if case.coarse:
        kept = [names[0], *(name for name in names[1:] if draw.random() < 0.7)]
        if len(kept) >= 4 and len(kept) < len(names) and names[0] != type(drawn.net).__name__:
            made, names = parts(drawn.net, drawn.sample(), split_at=kept), kept
            names = [part.name for part in made]
    profile = json.loads(profile_of(names))
    if case.respects_cuts and made.no_cut_after():
        profile["no_cut_after"] = made.no_cut_after()
    plan = weir.partition(weir.Profile.from_json(json.dumps(profile)), f"{RANKS} devices, 16GiB, 12GB/s 5us",
                          schedule=schedule, micro_batches=MICRO_BATCHES, ranks=RANKS).document
    if not case.recompute or schedule == "forward-only":
        return plan
    return recomputed(plan) if draw.random() < 0.5 else recomputed(plan, [[name] for name in names])


class Trial:
    """A case on this rank: the pipeline and the unsplit module, and what they do."""

    def __init__(self, case: Case):
        import drawn_modules
        self.case = case
        self.drawn, self.whole, self.third = (drawn_modules.draw(case.seed, MICRO_BATCHES, case.without) for _ in range(3))
        for drawn in (self.drawn, self.whole, self.third):
            drawn.net.train(case.makes_mode)
        self.changed = ""
        self.tolerance = 1e-9 if self.drawn.is_double else 1e-4
        if case.situation.startswith("autocast") or self.drawn.uses_autocast:
            self.tolerance = 0.05
        self.missing: Dict[str, List[str]] = {"parameters": [], "buffers": []}
        self.differs = ""
        self.built_with = self._autocast() if case.situation == "autocast" else contextlib.nullcontext()
        self.run_with = self._autocast() if case.situation.startswith("autocast") else contextlib.nullcontext()

    @staticmethod
    def _autocast() -> Any:
        import torch
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def run(self) -> None:
        from weir.torch import pipeline
        case, draw = self.case, random.Random(f"trial {self.case.seed}")
        self.plan = plan_for(case, self.third, case.schedule)
        with self.built_with:
            self.pipe = pipeline(self.drawn.net, self.plan, self.drawn.sample(), loss_fn=self.drawn.loss_fn,
                                 average=self.drawn.average)
        self.step(0)
        if case.situation == "evaluate":
            self.evaluate()
        if case.situation == "change":
            number, seed = draw.randrange(1 << 16), draw.randrange(1 << 16)
            for drawn in (self.drawn, self.whole):
                self.changed = drawn.change(number, seed)
        if case.situation == "mode":
            for drawn in (self.drawn, self.whole):
                drawn.net.train(not drawn.net.training)
        if case.situation in ("accumulate", "evaluate", "change", "mode") or case.accumulates_twice:
            if case.situation != "accumulate":
                self.learn(draw)
            self.step(1)

    def step(self, number: int) -> None:
        """Both do it, the unsplit module first, and are compared."""
        before = {name: buffer.clone() for name, buffer in self.whole.net.named_buffers()}
        with self.run_with:
            wanted = self.whole_step(number)
            args, named, target = self.drawn.batch(number)
            losses = self.pipe.step(*args, target=target, **named)
        for mine, theirs in zip(losses, wanted):
            self.compare("a loss", f"step {number}", mine, theirs, theirs.abs().max().item())
        self.compare_state(number, before)

    def whole_step(self, number: int) -> List[Any]:
        import torch
        try:
            losses = []
            for args, named, target in self.whole.micro_batches(number):
                loss = self.whole.loss_of(self.whole.net(*args, **named), target)
                (loss * (1 / MICRO_BATCHES if self.whole.average else 1)).backward()
                losses.append(loss.detach().clone())
            if not all(bool(torch.isfinite(loss)) for loss in losses):
                raise Unusable(f"losses {losses}")
            return losses
        except Unusable:
            raise
        except Exception as error:
            raise Unusable(f"step {number}: {''.join(traceback.format_exception(error))}") from error

    def compare_state(self, number: int, before: Dict[str, Any]) -> None:
        """Gradients and buffers of this rank, and which it has not."""
        theirs = dict(self.whole.named_parameters())
        largest = max((p.grad.abs().max().item() for p in theirs.values() if p.grad is not None and p.numel()),
                      default=0.0)
        mine = dict(self.pipe.named_parameters())
        for name, parameter in mine.items():
            self.compare("a gradient", f"{name}, step {number}", parameter.grad, theirs[name].grad, largest)
        for name, parameter in mine.items():
            self.compare("a parameter", f"{name}, step {number}", parameter.detach(), theirs[name].detach(), 0.0)
        self.missing["parameters"] = [name for name, parameter in theirs.items()
                                      if name not in mine and parameter.grad is not None and parameter.grad.any()]
        mine, buffers = dict(self.pipe.named_buffers()), dict(self.whole.net.named_buffers())
        for name, buffer in mine.items():
            if name in buffers:
                self.compare("a buffer", f"{name}, step {number}", buffer, buffers[name], 0.0)
        self.missing["buffers"] = [name for name, buffer in buffers.items()
                                   if name not in mine and not buffer.equal(before[name])]

    def compare(self, what: str, name: str, mine: Any, theirs: Any, largest: float) -> None:
        """`largest`: of all tensors of the kind, since some are rounding alone, such as a bias before a BatchNorm's."""
        import torch
        if mine is None or theirs is None:
            there = mine if mine is not None else theirs
            if there is not None and there.abs().max().item() > self.tolerance * 1e-2 * largest:
                self.note(f"{what} ({name}) is there {'in the pipeline' if theirs is None else 'in the module'} alone")
            return
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            self.note(f"{what} ({name}) is {mine.dtype}{list(mine.shape)}, wanted {theirs.dtype}{list(theirs.shape)}")
            return
        wide = torch.complex128 if mine.is_complex() else torch.float64
        far = (mine.to(wide) - theirs.to(wide)).abs().max().item() if mine.numel() else 0.0
        size = theirs.to(wide).abs().max().item() if mine.numel() else 0.0
        if not far <= self.tolerance * max(size, 1e-2 * largest):
            self.note(f"{what} ({name}) differs by {far:.3g}, of {size:.3g}")

    def note(self, said: str) -> None:
        """The first difference; the steps go on, since the other rank's do."""
        self.differs = self.differs or said

    def evaluate(self) -> None:
        """By the pipeline's own eval, or by one that has no backwards; the mode is put back behind it."""
        import torch
        from torch.utils import _pytree as tree
        from weir.torch import pipeline
        training, (args, named, target) = self.drawn.net.training, self.drawn.batch(1)
        self.whole.net.eval()
        with torch.no_grad():
            theirs = [self.whole.net(*args, **named) for args, named, _ in self.whole.micro_batches(1)]
            losses = [self.whole.loss_of(result, target)
                      for result, (_, _, target) in zip(theirs, self.whole.micro_batches(1))]
        if hasattr(self.pipe, "eval"):
            mine, found = self.pipe.eval(*args, target=target, **named)[::-1]
            for ours, wanted in zip(found, losses):
                self.compare("a loss", "evaluation", ours, wanted, wanted.abs().max().item())
        else:
            self.drawn.net.eval()
            made = pipeline(self.drawn.net, plan_for(self.case, self.third, "forward-only"), self.drawn.sample())
            with torch.no_grad():
                mine = made.step(*args, **named)
        if mine is not None:
            wanted = [tree.tree_flatten(one)[0] for one in theirs]
            for place, tensor in enumerate(tree.tree_flatten(mine)[0]):
                if isinstance(tensor, torch.Tensor) and wanted[0][place].dim() > 0:
                    self.compare("an output", f"evaluation, {place}", tensor, torch.cat([one[place] for one in wanted]),
                                 0.0)
        self.drawn.net.train(training), self.whole.net.train(training)

    def learn(self, draw: random.Random) -> None:
        """Plain SGD, or nothing, and no gradients behind it."""
        import torch
        rate, to_none = (0.05 if self.case.learns else 0.0), draw.random() < 0.5
        for parameters in (list(self.pipe.parameters()), list(self.whole.all_parameters())):
            with torch.no_grad():
                for parameter in parameters:
                    if parameter.grad is not None and rate:
                        parameter -= rate * parameter.grad
            for parameter in parameters:
                if to_none or parameter.grad is None:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()


def try_case(seed: int, without: Iterable[int]) -> Dict[str, Any]:
    """What comes of a seed on this rank."""
    import weir
    case, trial, what = Case.of(seed, without), None, "right"
    said = ""
    try:
        trial = Trial(case)
        trial.run()
        what, said = ("silent", trial.differs) if trial.differs else (what, said)
    except weir.WeirError as error:
        what, said = "refused", str(error)
    except Unusable as error:
        what, said = "unusable", str(error)
    except Exception:  # which may be any
        what, said = "crash", traceback.format_exc()
    moves = trial.drawn.moves if trial is not None else []
    return {"what": what, "said": said, "missing": trial.missing if trial is not None else {},
            "case": f"{case}{f' ({trial.changed})' if trial is not None and trial.changed else ''}; "
                    + ", ".join(f"{number} {move}" for number, move in moves),
            "moves": [number for number, _ in moves]}


# --- two processes -------------------------------------------------------------------------------

def _rank(rank: int, meet: str, seeds: Any) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import datetime
    import warnings
    import torch
    import torch.distributed as dist
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=2 * PATIENCE_S))
    import drawn_modules, weir.torch  # pylint: disable=multiple-imports,unused-import  # which take seconds
    seeds.send("ready")
    while True:
        asked = seeds.recv()
        if asked is None:
            break
        seeds.send(try_case(*asked))
    os._exit(0)  # without a farewell, for which the other one might have to wait


class Pair:
    """Two processes that try one case after the other; they are started anew after some, and after each failure."""

    def __init__(self) -> None:
        self._processes: List[Any] = []
        self._pipes: List[Any] = []
        self._tried = 0

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        for rank in range(RANKS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_rank, args=(rank, f"{self._folder.name}/meet", theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        for pipe in self._pipes:
            if not pipe.poll(5 * PATIENCE_S) or pipe.recv() != "ready":
                raise RuntimeError("a rank did not start")
        self._tried = 0

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes = [], []

    def _answers(self) -> List[Optional[Dict[str, Any]]]:
        answers: List[Optional[Dict[str, Any]]] = [None] * RANKS
        end = time.monotonic() + PATIENCE_S
        while None in answers and time.monotonic() < end:
            for rank, pipe in enumerate(self._pipes):
                if answers[rank] is None and pipe.poll(0.002):
                    try:
                        answers[rank] = pipe.recv()
                    except EOFError:
                        answers[rank] = {"what": "crash", "said": "the process has ended", "case": "", "moves": []}
                    if answers[rank]["what"] not in ("right", "silent"):
                        end = min(end, time.monotonic() + LATE_S)
        return answers

    def try_seed(self, seed: int, without: Iterable[int] = ()) -> Tuple[str, str, Dict[str, Any]]:
        """(outcome, reason, what the ranks said of the case)."""
        if self._tried >= MODULES_OF_A_PAIR:
            self._end()
        if not self._processes:
            self._start()
        self._tried += 1
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send((seed, tuple(without)))
        answers = self._answers()
        told = [answer for answer in answers if answer is not None]
        outcome, said = _agreed(answers)
        if outcome == "crash" or len(told) < RANKS or len({answer["what"] for answer in told}) > 1:
            self._end()  # one may wait for the other for ever
        return outcome, said, (told or [{"case": str(Case.of(seed, without)), "moves": []}])[0]


def _agreed(answers: List[Optional[Dict[str, Any]]]) -> Tuple[str, str]:
    """The outcome on all ranks."""
    kinds = ["hang" if answer is None else answer["what"] for answer in answers]
    told = [(rank, answer) for rank, answer in enumerate(answers) if answer is not None]
    for kind in ("unusable", "silent", "crash"):
        for rank, answer in told:
            if answer["what"] == kind:
                return kind, f"rank {rank}: {answer['said']}"
    if len(set(kinds)) > 1 or "hang" in kinds:
        return "crash", "; ".join(f"rank {rank}: {kind}" + (f" ({answer['said']})" if answer and answer["said"] else "")
                                  for rank, (kind, answer) in enumerate(zip(kinds, answers)))
    if kinds[0] == "right":
        for of_what in ("parameters", "buffers"):
            lost = set.intersection(*(set(answer["missing"][of_what]) for _, answer in told))
            if lost:
                return "silent", f"no rank has the {of_what} {', '.join(sorted(lost))}, which the module's steps change"
        return "right", ""
    return "refused", told[0][1]["said"]


# --- many ----------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one seed."""

    seed: int
    what: str
    said: str
    case: str

    def is_good(self) -> bool:
        return self.what in ("right", "refused")

    def __str__(self) -> str:
        return f"seed {self.seed} {self.what}: {self.case}" + (f"\n    {self.said}" if self.said else "")


def fuzz(seeds: Iterable[int], shrinks: bool = True) -> Iterator[Outcome]:
    """Tries them in turn; a failure has what remains of its module once every move that can go is gone."""
    with Pair() as pair:
        for seed in seeds:
            what, said, told = pair.try_seed(seed)
            if what not in ("right", "refused") and shrinks:
                what, said, told = shrunk(pair, seed, what, said, told)
            yield Outcome(seed, what, said, told["case"])


def shrunk(pair: Pair, seed: int, what: str, said: str, told: Dict[str, Any]) -> Tuple[str, str, Dict[str, Any]]:
    without: List[int] = []
    for move in told["moves"]:
        found = pair.try_seed(seed, [*without, move])
        if found[0] == what:
            without.append(move)
            _, said, told = found
    return what, said, told


def reason(said: str) -> str:
    """A refusal without what differs from module to module."""
    text = re.sub(r"\([^()]*\)", "(..)", said.split("\n")[0])
    text = re.sub(r"[\w/]+(\.\w+)+(@\d+)?", "NAME", text)
    return re.sub(r"\d+", "N", text)[:110]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--no-shrink", dest="shrinks", action="store_false")
    parser.add_argument("--say", action="store_true", help="a line for each module")
    given = parser.parse_args()
    counts: Dict[str, int] = {}
    reasons: Dict[str, List[int]] = {}
    for outcome in fuzz(range(given.seed, given.seed + given.count), given.shrinks):
        counts[outcome.what] = counts.get(outcome.what, 0) + 1
        if outcome.what == "refused":
            reasons.setdefault(reason(outcome.said), []).append(outcome.seed)
        if given.say or not outcome.is_good():
            print(outcome, flush=True)
    for said, seeds in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):4} refused, such as seed {seeds[0]}: {said}")
    print(f"seeds {given.seed} to {given.seed + given.count - 1}: "
          + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 0 if set(counts) <= {"right", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
