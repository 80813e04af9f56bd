"""Weir's documents as objects: profiles, plans, schedules, simulations, explanations, sweeps.

Each of them is held by the library; what is read, written, computed and refused is the library's doing.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, TypeVar, Union

from . import library
from .library import (Progress, WeirError, call, call_answer, encode, numbers, run, run_answer, size, take_text,
                      time_ns, whole)

__all__ = ['Comparison', 'Explanation', 'Plan', 'Profile', 'Schedule', 'Simulation', 'Sweep', 'compare', 'partition',
           'schedule', 'search', 'sweep']

Path = Union[str, 'os.PathLike[str]']
Size = Union[int, str]
Time = Union[float, str]
Choice = Union[int, Iterable[int], None]
Document = Mapping[str, Any]


def given_path(path: Path) -> bytes:
    return os.fsencode(os.fspath(path))


def given_document(given: Union[str, Document, None]) -> Optional[bytes]:
    """A document, or a line that stands for one, as the library takes it."""
    return encode(given) if given is None or isinstance(given, str) else json.dumps(given).encode()


class _Written(library.Handle):
    """What is written as a document."""

    def json(self) -> str:
        """The document, as Weir writes it: the same content gives the same bytes."""
        return take_text(call(f'{self.kind}_document', self))

    @property
    def document(self) -> dict[str, Any]:
        """The document as dictionaries and lists; a copy, made anew each time."""
        return json.loads(self.json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and other.kind == self.kind and self.json() == other.json()

    def __hash__(self) -> int:
        return hash(self.json())

    def __reduce__(self) -> Any:
        raise TypeError(f'a {self.kind} is written, and not read: keep what it was made of')


Self = TypeVar('Self', bound='_Document')


class _Document(_Written):
    """What is read, too, and so can be copied and pickled."""

    @classmethod
    def from_json(cls: type[Self], text: str, name: str = '') -> Self:
        """Reads a document; `name` is what errors call it."""
        encoded = text.encode()
        return cls(call(f'{cls.kind}_read', encoded, len(encoded), encode(name or f'the {cls.kind}')))

    @classmethod
    def load(cls: type[Self], path: Path) -> Self:
        """Reads a document's file."""
        return cls(call(f'{cls.kind}_load', given_path(path)))

    def save(self, path: Path) -> None:
        """Writes the document to a file, whole or not at all."""
        call(f'{self.kind}_save', self, given_path(path))

    def __reduce__(self) -> Any:
        return type(self).from_json, (self.json(),)


class Profile(_Document):
    """What the layers of a model cost (docs/formats/profile.md): times per micro-batch, in ns, and bytes."""

    kind = 'profile'

    def table(self) -> str:
        """The layers with their times and bytes, for people."""
        return take_text(call('profile_text', self))

    def lint(self) -> list[str]:
        """What looks wrong, a sentence each; "untrusted" in it means that no plan made of it can be believed."""
        return take_text(call('profile_lint', self)).splitlines()

    def refine(self, plan: 'Plan', traces: Union[Path, Iterable[Path]], *,
               iteration: Optional[int] = None) -> 'Profile':
        """This profile with the times of each stage's layers scaled to what a run of its plan took, for the next plan.

        `plan` is one that was made of this very profile: the next one is made of the refined, and refines that.
        `traces` and `iteration` as compare() takes them, which says how far the two were apart. Layers of a stage are
        scaled alike, forwards and backwards apart; what a stage did not show by itself stays as it is.
        """
        return Profile(call('profile_refine', self, compare(plan, traces, iteration=iteration)))

    def __repr__(self) -> str:
        document = self.document
        return (f'<weir.Profile of {document["model"]}: {len(document["layers"])} layers, '
                f'{document["source"]["how"]}, micro-batches of {document["micro_batch"]}>')


class _Shown:
    """What can be looked at: an SVG in a notebook, characters elsewhere."""

    def _simulation(self) -> 'Simulation':
        raise NotImplementedError

    def _words(self) -> str:
        """What stands above the chart in a terminal."""
        return ''

    def _repr_svg_(self) -> str:
        return self._simulation().svg()

    def show(self) -> None:
        """Draws it: an SVG in a notebook, a chart of characters elsewhere."""
        if _is_notebook():
            from IPython.display import SVG, display  # a notebook has it
            display(SVG(self._repr_svg_()))
        else:
            print(self._words() + self._simulation().chart(**_terminal()), end='')


def _is_notebook() -> bool:
    """Whether the cells of a notebook are what runs this; a terminal's IPython is none."""
    shell = getattr(sys.modules.get('IPython'), 'get_ipython', lambda: None)()
    return shell is not None and getattr(shell, 'kernel', None) is not None


def _terminal() -> dict[str, Any]:
    """How a chart looks where standard output goes."""
    terminal = sys.stdout.isatty()
    encoding = (sys.stdout.encoding or '').lower().replace('-', '')
    columns = max(20, shutil.get_terminal_size((110, 24)).columns) if terminal else 110
    return {'columns': columns, 'ascii': encoding != 'utf8',
            'colours': terminal and not os.environ.get('NO_COLOR') and os.environ.get('TERM') != 'dumb'}


class Plan(_Shown, _Document):
    """Which layers on which devices, which are recomputed, and what that takes (docs/formats/plan.md)."""

    kind = 'plan'

    def text(self) -> str:
        """The plan as a table, and what there is to say of it."""
        return take_text(call('plan_text', self))

    def check(self, profile: Profile, *, prove: bool = False, budget: Optional[int] = None,
              progress: Optional[Progress] = None) -> None:
        """Computes times and bytes anew from the profile, by other means than the search; a WeirError of code 1 where
        one is not what the plan says.

        `prove`: searches anew as well, by `budget` units of work; a WeirError of code 1 where the certificate does not
        hold, or where so much work cannot tell.
        """
        if not prove:
            call('plan_check', self, profile)
            return
        watch = library.Watch()
        run('plan_prove', self, profile, whole(budget, 'budget', 1, 2**53 - 1), ctypes.byref(watch), watch=watch,
            progress=progress)

    @property
    def proved(self) -> bool:
        """Whether a search of this process has proved that no other cut or recomputation that fits is faster.

        A plan that was loaded only says so: check(profile, prove=True) tells.
        """
        return bool(library.LIBRARY.weir_plan_is_proved(self))

    @property
    def ranks(self) -> int:
        """Ranks of the pipeline."""
        return int(library.LIBRARY.weir_plan_ranks(self))

    @property
    def micro_batches(self) -> int:
        """Micro-batches of an iteration, over which a trainer shares out a batch."""
        return int(library.LIBRARY.weir_plan_micro_batches(self))

    @property
    def schedule_name(self) -> str:
        """The schedule as it was asked for: '1f1b', 'zb-h1', .."""
        return str(library.LIBRARY.weir_plan_schedule_name(self).decode())

    @property
    def optimizer(self) -> str:
        """The optimizer whose state the plan counts: 'adamw', .."""
        return str(library.LIBRARY.weir_plan_optimizer(self).decode())

    def explain(self, profile: Profile, *, budget: Optional[int] = None,
                progress: Optional[Progress] = None) -> 'Explanation':
        """Why the plan is not faster, and what a change would gain.

        `budget`: units of work for each of some forty plans, usually half a second's. Ctrl-C ends it with what is
        known.
        """
        watch = library.Watch()
        options = library.ExplainOptions(budget=whole(budget, 'budget', 1, 2**53 - 1), watch=ctypes.pointer(watch))
        return Explanation(*run_answer('explain', self, profile, ctypes.byref(options), watch=watch,
                                       progress=progress))

    def export(self, format: str, *, profile: Optional[Profile] = None, units: Choice = None,
               base: Optional[str] = None, said: Optional[Callable[[str], Any]] = None) -> str:
        """The plan in another framework's words, byte for byte what `weir export FORMAT` writes (docs/exports.md).

        `format`: megatron, torchtitan, deepspeed, colossalai, nanotron, torchgpipe, pytorch or pytorch-csv. `profile`,
        the one that the plan was made of, is needed where the framework has only another plan near by. `units`: how many
        layers are the input, each block, and the output there, where their names do not tell. `base`: the
        config function of torchtitan's that the plan is added to, "torchtitan.models.llama3.config_registry.llama3_8b".
        `said` is called with each sentence that the command writes on standard error: what the framework is not told,
        or does otherwise. A WeirError of code 1 where the framework has no way to run the plan.
        """
        options = library.ExportOptions(profile=None if profile is None else library.PROFILE.from_param(profile),
                                        units=numbers(units, 'units', 0), base=encode(base))
        text, sentences = call_answer('plan_export', self, encode(format), ctypes.byref(options))
        for sentence in sentences.splitlines() if said else ():
            said(sentence)
        return text

    def second_opinion(self, profile: Profile) -> str:
        """What GLPK, in a process of its own, says of the plan's bound; for up to hundreds of layers."""
        watch = library.Watch()
        return take_text(run('second_opinion', self, profile, ctypes.byref(watch), watch=watch)).strip()

    def simulate(self) -> 'Simulation':
        """One iteration: when everything happens, and the bytes of each rank."""
        return Simulation(call('plan_simulate', self))

    def schedule(self) -> 'Schedule':
        """What each rank computes, in which order, with what its stages cost."""
        return Schedule(call('plan_schedule', self))

    def _simulation(self) -> 'Simulation':
        return self.simulate()

    def _words(self) -> str:
        return self.text() + '\n'

    def __repr__(self) -> str:
        document = self.document
        how = document['schedule']
        proved = ', proved optimal' if self.proved else ''
        time = document['predicted']['iteration_ns'] / 1e6
        return (f'<weir.Plan: {document["profile"]["model"]} in {len(document["stages"])} stages by {how["name"]}, '
                f'{how["micro_batches"]} micro-batches in {time:.3f} ms{proved}>')


class Schedule(_Shown, _Document):
    """What each rank does, in which order (docs/formats/schedule.md).

    One that was searched for has `time_ns`, `bound_ns` (no order takes less), `gap`, `proved`, `work`, `method` and
    `stopped`; of others these are None.
    """

    kind = 'schedule'

    time_ns: Optional[int] = None
    bound_ns: Optional[int] = None
    gap: Optional[float] = None
    proved: Optional[bool] = None
    work: Optional[int] = None
    method: Optional[str] = None
    stopped: Optional[str] = None

    @classmethod
    def from_csv(cls, text: str, name: str = '') -> 'Schedule':
        """Reads the file of a schedule that PyTorch's pipelining writes."""
        return cls.from_json(text, name)  # the reader sees by itself which of the two it is

    def csv(self, *, lowered: bool = False, dialect: str = 'torch2.9', line_feeds: bool = False) -> str:
        """The file that PyTorch's pipelining reads, by `lowered` with its SENDs and RECVs.

        It has no cells for STEP and REDUCE. `dialect` is the PyTorch that is to read it: torch2.9 or torch2.6.
        """
        options = library.CsvOptions(dialect=encode(dialect), lowered=lowered, line_feeds=line_feeds)
        return take_text(call('schedule_csv', self, ctypes.byref(options)))

    def check(self, *, sends: str = 'rendezvous', receives: Optional[str] = None, channels: str = 'apart',
              memory: Optional[Size] = None, cost: Union[str, Document, None] = None,
              keep: Sequence[Size] = (0, 0), cluster: Union[str, Document, None] = None) -> dict[str, Any]:
        """Whether it can run: the document "weir.check" (docs/formats/check.md).

        `sends`: rendezvous (a send ends when its receive is reached), eager:K (K sends per channel are buffered) or
        grouped. `receives`: where they are put: early, late or timed (by the costs); as they stand if not given.
        `channels`: apart, or shared by all of a pair of ranks. `memory` of each rank, such as "80GiB". `cost`, `keep`
        and `cluster` as simulate() takes them.
        """
        price = _price(cost, None, keep, cluster)
        options = library.CheckOptions(buffered_sends=_buffered(sends), grouped=sends == 'grouped',
                                       receives=encode(receives), shared_channels=_is_shared(channels),
                                       memory_bytes=size(memory, 'memory'), price=ctypes.pointer(price))
        return json.loads(take_text(call('schedule_check', self, ctypes.byref(options))))

    def simulate(self, cost: Union[str, Document, None] = None, *, overlapped: Optional[str] = None,
                 keep: Sequence[Size] = (0, 0), cluster: Union[str, Document, None] = None) -> 'Simulation':
        """When everything happens.

        `cost`: "18522us,18086us,9337us,601us", F, I and W of every stage (B is both) and what a message takes; or a
        document with rows of costs (docs/formats/costs.md); usually what the schedule says itself. `overlapped`: what
        an F and a backward take together. `keep`: bytes that a stage keeps of a micro-batch after F, and after I.
        `cluster`: whose links the messages take, rank r on device r.
        """
        price = _price(cost, overlapped, keep, cluster)
        return Simulation(call('schedule_simulate', self, ctypes.byref(price)))

    def _simulation(self) -> 'Simulation':
        document = self.document
        if 'costs' in document:
            return self.simulate()
        splits = document.get('splits', 1)  # then each part of a sequence takes 1
        return self.simulate(f'{splits},{splits},{splits},0')

    def __repr__(self) -> str:
        document = self.document
        found = '' if self.time_ns is None else f', {self.time_ns} ns and none less than {self.bound_ns} ns'
        return (f'<weir.Schedule {document["name"]}: {document["ranks"]} ranks, {document["stages"]} stages, '
                f'{document["micro_batches"]} micro-batches{found}>')


def _buffered(sends: str) -> int:
    if sends in ('rendezvous', 'grouped'):
        return 0
    kind, _, count = sends.partition(':')
    if kind != 'eager' or not count.isdigit():
        raise WeirError(f'sends: "{sends}" is none of rendezvous, eager:K, grouped')
    return whole(int(count), 'sends')


def _is_shared(channels: str) -> bool:
    if channels not in ('apart', 'shared'):
        raise WeirError(f'channels: "{channels}" is neither shared nor apart')
    return channels == 'shared'


def _price(cost: Union[str, Document, None], overlapped: Optional[str], keep: Sequence[Size],
           cluster: Union[str, Document, None]) -> library.PriceOptions:
    if len(keep) != 2:
        raise WeirError(f'keep: takes 2 quantities, after F and after I, not {len(keep)}')
    return library.PriceOptions(costs=given_document(cost), overlapped=encode(overlapped),
                                kept_forward_bytes=size(keep[0], 'keep'), kept_weight_bytes=size(keep[1], 'keep'),
                                cluster=given_document(cluster))


class Simulation(_Shown, _Written):
    """What one iteration takes: the document "weir.simulation" (docs/formats/simulation.md), and pictures of it."""

    kind = 'simulation'

    def text(self) -> str:
        """Time, the four bubbles, the critical path, and a row per rank, for people."""
        return take_text(call('simulation_text', self))

    def _draw(self, picture: int, **how: Any) -> str:
        return take_text(call('simulation_draw', self, ctypes.byref(library.DrawOptions(picture=picture, **how))))

    def chart(self, *, columns: int = 110, ascii: bool = False, colours: bool = False) -> str:
        """Who does what when, in characters."""
        return self._draw(library.CHART, columns=whole(columns, 'columns', 20, 10000), ascii=ascii, colours=colours)

    def svg(self, *, messages: bool = False, width: Optional[int] = None, font: Optional[str] = None,
            title: Optional[str] = None) -> str:
        """The same as an SVG, by `messages` with an arrow for each.

        `width` in pixels, 1338 if not given, and `font`, such as "Times New Roman", for where it is to stand. `title`
        stands on top: the schedule, its ranks and micro-batches if not given.
        """
        return self._draw(library.SVG, messages=messages, width=whole(width, 'width', 320, 20000), font=encode(font),
                          title=encode(title))

    def html(self, *, title: Optional[str] = None) -> str:
        """A page to zoom in, which needs a browser and nothing else."""
        return self._draw(library.PAGE, title=encode(title))

    def trace(self) -> str:
        """Chrome trace events, for Perfetto."""
        return self._draw(library.TRACE)

    def _simulation(self) -> 'Simulation':
        return self

    def _words(self) -> str:
        return self.text() + '\n'

    def __repr__(self) -> str:
        document = self.document
        return (f'<weir.Simulation: {document["schedule"]}, {document["ranks"]} ranks, '
                f'{document["iteration_ns"] / 1e6:.3f} ms, bubble {100 * document["bubble"]["makespan"]:.1f} %>')


class Comparison(_Written):
    """A run against its plan: the document "weir.comparison" (docs/formats/comparison.md)."""

    kind = 'comparison'

    def __init__(self, address: int, plan: Optional[Plan]) -> None:
        super().__init__(address)
        self._plan = plan  # which the library does not copy

    def text(self) -> str:
        """Iteration, bubbles and peaks as predicted and as measured, actions per stage and kind, and the causes."""
        return take_text(call('comparison_text', self))

    @property
    def causes(self) -> list[dict[str, Any]]:
        """What explains the difference, most first: `cause` is stage, link, exchange, order, noise or gaps.

        `iteration_ns` is what the iteration takes with the measured values of this cause alone; causes overlap.
        """
        return self.document['causes']

    @property
    def notes(self) -> list[str]:
        """What was left out of the traces and what may surprise, a sentence each."""
        return take_text(call('comparison_notes', self)).splitlines()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        document = self.document
        predicted, measured = (document[side]['iteration_ns'] / 1e6 for side in ('predicted', 'measured'))
        first = f', mostly by {document["causes"][0]["cause"]}' if document['causes'] else ''
        return f'<weir.Comparison: {predicted:.3f} ms predicted, {measured:.3f} ms measured{first}>'


class Found:
    """What a call has found, as a document that is written and not read."""

    _json: str

    def json(self) -> str:
        """The document, as Weir writes it."""
        return self._json

    @property
    def document(self) -> dict[str, Any]:
        """The document as dictionaries and lists; a copy, made anew each time."""
        return json.loads(self._json)


class Explanation(Found):
    """Why a plan is not faster: the document "weir.explanation" (docs/formats/explanation.md)."""

    def __init__(self, document: str, text: str) -> None:
        self._json, self._text = document, text

    def text(self) -> str:
        """What binds, and what each change would gain, for people."""
        return self._text

    def __str__(self) -> str:
        return self._text


class Sweep(Found, Sequence[Mapping[str, Any]]):
    """The rows of a sweep (docs/formats/sweep.md), the table of them, and the plan that is suggested."""

    def __init__(self, document: str, table: str, best: Optional[Plan]) -> None:
        self._json, self._table, self.best = document, table, best
        self._rows = json.loads(document)['rows']

    def table(self) -> str:
        """Time against peak bytes, the best, the front, and why the others lost, for people."""
        return self._table

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f'<weir.Sweep of {len(self)} plans; best: {self.best!r}>'


# --- calls --------------------------------------------------------------------------------------------------------


def partition(profile: Profile, cluster: Union[str, Document], *, schedule: Union[str, Schedule],
              micro_batches: Optional[int] = None, ranks: Optional[int] = None, chunks: Optional[int] = None,
              optimizer: str = 'adamw', memory: Optional[Size] = None, tied_apart: Optional[bool] = None,
              shard: str = 'none', host: Iterable[str] = (), window: Optional[int] = None,
              step_rate: Optional[int] = None, choose: Iterable[str] = (), replicas: Optional[Iterable[int]] = None,
              devices: Optional[Iterable[int]] = None, pins: Optional[Mapping[str, int]] = None, own_order: bool = False,
              target: Optional[str] = None, budget: Optional[int] = None, deadline: Optional[Time] = None,
              progress: Optional[Progress] = None) -> Plan:
    """The plan with the least simulated time of an iteration that fits the devices' memory.

    `cluster`: a line such as "2 devices, 16GiB, 12GB/s 5us", a file, or a document. `schedule`: any that `weir
    schedule` lists, such as "1f1b" or "zb-v"; or a Schedule that flushes, which is planned for as it is, with its ranks
    and micro-batches. `micro_batches` of an iteration. `ranks`: the cluster's devices if not given. `chunks`: stages on
    each rank, as the schedule has it if not given. `optimizer`: adamw (the usual), or another that
    docs/memory.md lists. `memory` of each device, such as "16GiB", instead of the cluster's.

    How states are held (docs/memory.md): `tied_apart`, whether layers that share parameters may be on different stages
    (None: where the schedule flushes), `shard` (none, optimizer, gradients, weights), `host` (optimizer, activations),
    `window` (layers), `step_rate` (bytes per second). `choose`, what the search may choose too: replicas, devices,
    fewer (devices without work), variants. Or given: `replicas`, the ranks of each stage; `devices`, that of each rank;
    `pins`, the stages of some layers, by name. `own_order`: layers of a graph stay in the order that the profile has.
    `target`: only plans that this framework can be told, "megatron" or "torchtitan" (docs/exports.md).

    `budget`: units of work. `deadline`: seconds, or "10s"; plans then vary. `progress` is called with a line on how
    far the search is, some ten times a second. Ctrl-C ends it with the best plan so far, whose certificate says
    `stopped`; KeyboardInterrupt where there is none. A WeirError of code 1 says which stage lacks how much.
    """
    host = _words('host', host, ('optimizer', 'activations'))
    choose = _words('choose', choose, ('replicas', 'devices', 'fewer', 'variants'))
    pins = pins or {}
    pinned = (library.Pin * len(pins))(*((encode(layer), whole(stage, 'pins')) for layer, stage in pins.items()))
    watch = library.Watch()
    is_given = isinstance(schedule, Schedule)
    options = library.PartitionOptions(
        cluster=given_document(cluster), schedule=None if is_given else encode(schedule),
        order=schedule.address if is_given else None, micro_batches=whole(micro_batches, 'micro_batches', 1),
        ranks=whole(ranks, 'ranks', 1), optimizer=encode(optimizer), chunks=whole(chunks, 'chunks', 1),
        tied=_tied(tied_apart), memory_bytes=size(memory, 'memory'), shard=encode(shard),
        optimizer_on_host='optimizer' in host, activations_on_host='activations' in host,
        window=whole(window, 'window', 1), step_rate=whole(step_rate, 'step_rate', 1, 2**53 - 1),
        choose_replicas='replicas' in choose, choose_devices='devices' in choose,
        choose_fewer_devices='fewer' in choose, choose_variants='variants' in choose,
        replicas=numbers(replicas, 'replicas'), devices=numbers(devices, 'devices', 0), pins=pinned,
        pin_count=len(pinned), own_order=own_order, target=encode(target),
        budget=whole(budget, 'budget', 1, 2**53 - 1), deadline_ns=time_ns(deadline, 'deadline'),
        watch=ctypes.pointer(watch))
    options.given = schedule  # alive as long as the call is
    return Plan(run('partition', profile, ctypes.byref(options), watch=watch, progress=progress))


def compare(planned: Union[Plan, Schedule], traces: Union[Path, Iterable[Path]], *, iteration: Optional[int] = None,
            cost: Union[str, Document, None] = None, overlapped: Optional[str] = None, keep: Sequence[Size] = (0, 0),
            cluster: Union[str, Document, None] = None, profile: Optional[Profile] = None) -> Comparison:
    """Holds a run that was measured against what was planned, and says why it took longer, or less long.

    `traces`: the files of one run, Chrome trace events of PyTorch's profiler or of Weir, packed by gzip or not; of all
    ranks, or a file each (docs/formats/trace.md). `iteration`: which of the run, from 0; the last one that is whole if
    not given. A schedule is priced by `cost`, `overlapped`, `keep` and `cluster` as Schedule.simulate() takes them; a
    plan brings all that. A WeirError names the first action that only one of the two has, where they do other work.

    What routers chose for experts is in the document as the run counted it. `profile`, of which the plan was made, says
    what was planned beside it.
    """
    if not isinstance(planned, (Plan, Schedule)):
        raise TypeError(f'a weir.Plan or a weir.Schedule is wanted, not {planned!r}')
    files = [given_path(traces)] if isinstance(traces, (str, os.PathLike)) else [given_path(path) for path in traces]
    options = library.CompareOptions(files=(ctypes.c_char_p * len(files))(*files), file_count=len(files),
                                     has_iteration=iteration is not None, iteration=whole(iteration, 'iteration'),
                                     profile=None if profile is None else library.PROFILE.from_param(profile))
    if isinstance(planned, Schedule):
        price = _price(cost, overlapped, keep, cluster)
        return Comparison(call('schedule_compare', planned, ctypes.byref(price), ctypes.byref(options)), None)
    if cost is not None or overlapped is not None or any(keep) or cluster is not None:
        raise WeirError('a plan brings its own costs and cluster: leave cost, overlapped, keep and cluster out')
    return Comparison(call('plan_compare', planned, ctypes.byref(options)), planned)


def _tied(apart: Optional[bool]) -> Optional[bytes]:
    return None if apart is None else b'apart' if apart else b'together'


def _words(name: str, given: Iterable[str], known: Sequence[str]) -> set[str]:
    words = {given} if isinstance(given, str) else set(given)
    for word in sorted(words):
        if word not in known:
            raise WeirError(f'{name}: "{word}" is none of {", ".join(known)}')
    return words


def schedule(name: str, *, ranks: int, micro_batches: int, chunks: Optional[int] = None, splits: Optional[int] = None,
             replicas: Optional[Iterable[int]] = None, segments: Optional[int] = None,
             passes: Optional[int] = None) -> Schedule:
    """A schedule by name, as `weir schedule` lists them.

    `chunks`: stages on each rank, as the schedule has it if not given. `splits` of each sequence (seq1f1b).
    `replicas`: ranks of each stage, which add up to `ranks` (1f1b, gpipe, pipedream, forward-only).
    `segments`: how many each stage is cut into, which exchange. `passes`: how many of these passes are in turns (2).
    """
    options = library.GenerateOptions(
        name=encode(name), ranks=whole(ranks, 'ranks', 1), micro_batches=whole(micro_batches, 'micro_batches', 1),
        chunks=whole(chunks, 'chunks', 1), splits=whole(splits, 'splits', 1), replicas=numbers(replicas),
        segments=whole(segments, 'segments', 1), passes=whole(passes, 'passes', 1))
    return Schedule(call('schedule_generate', ctypes.byref(options)))


def search(*, ranks: int, micro_batches: int, cost: Union[str, Document], chunks: Optional[int] = None,
           placement: str = 'one-way', objective: str = 'span', keep: Sequence[Size] = (0, 0),
           memory: Optional[Size] = None, budget: Optional[int] = None,
           progress: Optional[Progress] = None) -> Schedule:
    """The order that takes the least time for what stages cost, with `bound_ns`, which no order beats.

    `cost` and `keep` as Schedule.simulate() takes them. `memory`: what each rank has for what is kept, fixed bytes and
    workspace. `placement`: one-way, v or wave. `objective`: span, a rank's own first start to last end; or makespan,
    from the first start to the last end of all. `budget`: units of work. Ctrl-C ends it with the best so far.
    """
    watch, found = library.Watch(), library.Found()
    price = _price(cost, None, keep, None)
    options = library.SearchOptions(
        ranks=whole(ranks, 'ranks', 1), micro_batches=whole(micro_batches, 'micro_batches', 1),
        chunks=whole(chunks, 'chunks', 1), placement=encode(placement), objective=encode(objective),
        price=ctypes.pointer(price), memory_bytes=size(memory, 'memory'),
        budget=whole(budget, 'budget', 1, 2**53 - 1), watch=ctypes.pointer(watch))
    result = Schedule(run('search', ctypes.byref(options), ctypes.byref(found), watch=watch, progress=progress))
    result.time_ns, result.bound_ns, result.gap = found.time_ns, found.bound_ns, found.gap
    result.proved, result.work = found.proved, found.work
    result.method, result.stopped = found.method.decode(), found.stopped.decode()
    return result


def sweep(profile: Profile, cluster: Union[str, Document], *, schedules: Iterable[str] = (),
          micro_batches: Union[int, Iterable[int], None] = None, ranks: Union[int, Iterable[int], None] = None,
          chunks: Union[int, Iterable[int], None] = None, optimizer: str = 'adamw', memory: Optional[Size] = None,
          tied_apart: Optional[bool] = None, own_order: bool = False, budget: Optional[int] = None,
          threads: Optional[int] = None, progress: Optional[Progress] = None) -> Sweep:
    """A plan for every schedule, number of ranks, stages per rank and micro-batches, and which are worth it.

    `schedules`: all that train, and "search", if none is given. `micro_batches`: the ranks, and twice, four and eight
    times as many. `ranks`: the cluster's devices. `chunks`: each schedule's own number, and twice it. `tied_apart`:
    layers that share parameters may be on different stages, where schedules flush (as usual). `optimizer`: adamw (the
    usual), or another that partition() takes. `own_order`: plans keep the order in which the profile has the layers of
    a graph. `budget`: units of work for each plan. Ctrl-C ends it with the rows so far.
    """
    names = strings(schedules)
    watch, best = library.Watch(), ctypes.c_void_p()
    options = library.SweepOptions(
        cluster=given_document(cluster), schedules=names, schedule_count=len(names),
        ranks=numbers(ranks), chunks=numbers(chunks), micro_batches=numbers(micro_batches),
        optimizer=encode(optimizer), tied=_tied(tied_apart), own_order=own_order,
        memory_bytes=size(memory, 'memory'), budget=whole(budget, 'budget', 1, 2**53 - 1),
        threads=whole(threads, 'threads', 1, 1024), watch=ctypes.pointer(watch))
    try:
        texts = run_answer('sweep', profile, ctypes.byref(options), behind=[ctypes.byref(best)], watch=watch,
                           progress=progress)
    finally:  # the plan is ours whatever else went wrong
        suggested = Plan(best.value) if best.value else None
    return unless_stopped(Sweep(*texts, suggested))


Swept = TypeVar('Swept', bound=Sweep)


def unless_stopped(found: Swept) -> Swept:
    """What a sweep has found, unless it was interrupted before there was a plan."""
    if found.document['stopped'] == 'interrupted' and not any(row['outcome'] == 'planned' for row in found):
        raise KeyboardInterrupt
    return found


def strings(given: Union[str, Iterable[str]]) -> Any:
    """One string or several, as the library takes them."""
    words = [encode(word) for word in ([given] if isinstance(given, str) else given)]
    return (ctypes.c_char_p * len(words))(*words)
