"""libweir through ctypes: its functions, its structs, its errors, and calls that can be stopped.

The rest of the package talks to the library through this module alone. What weir.h says holds here too; names are
the same but for the prefix `weir_`.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
import weakref
from ctypes import (POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint32, c_uint64,
                    c_void_p)
from typing import Any, Callable, Optional

__all__ = ['WeirError', 'LIBRARY', 'run', 'take_text']

Progress = Callable[[str], Any]


class WeirError(Exception):
    """What went wrong, as one sentence of Weir's.

    `code` is what a program should exit with: 1, the answer is no (nothing fits, it cannot run); 2, the input is
    wrong; 3, the machine failed (memory, files, a deadline).
    """

    def __init__(self, sentence: str, code: int = 2) -> None:
        super().__init__(sentence)
        self.code = code


# --- structs, field by field as in weir.h; python/tests/test_library.py holds them against the header ---------------


class Error(Structure):
    _fields_ = [('code', c_int), ('text', ctypes.c_char * 500)]


PROGRESS = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Watch(Structure):
    _fields_ = [('progress', PROGRESS), ('self', c_void_p), ('stop', POINTER(c_int))]


class Answer(Structure):
    _fields_ = [('document', c_void_p), ('text', c_void_p)]


class Numbers(Structure):
    _fields_ = [('at', POINTER(c_uint32)), ('count', c_size_t)]


class Pin(Structure):
    _fields_ = [('layer', c_char_p), ('stage', c_uint32)]


class Options(Structure):
    """Options of a function, by their names; first their own size, so that the library may know more of them."""

    _fields_ = [('size', c_size_t)]

    def __init__(self, **given: Any) -> None:
        super().__init__(size=ctypes.sizeof(self), **given)


class EstimateOptions(Options):
    _fields_ = [
        ('device', c_char_p), ('tensor', c_uint32), ('context', c_uint32), ('expert', c_uint32), ('data', c_uint32),
        ('micro_batch', c_uint32), ('sequence', c_uint32), ('dtype', c_char_p), ('products', c_char_p),
        ('attention', c_char_p), ('overlap', c_char_p), ('shard', c_char_p), ('dispatch', c_char_p), ('loss', c_char_p),
        ('sequence_parallel', c_int), ('graphs', c_int), ('compiled', c_int), ('hidden_experts', c_int),
        ('blocking', c_bool), ('whole_blocks', c_bool), ('without_mtp', c_bool), ('variants', c_char_p),
        ('recompute_tensors', c_char_p), ('like', c_char_p), ('within', c_uint32), ('gradient_bytes', c_uint32),
        ('narrow', c_char_p), ('frozen', c_char_p), ('lora', c_char_p), ('lengths', c_char_p),
    ]


class PartitionOptions(Options):
    _fields_ = [
        ('cluster', c_char_p), ('schedule', c_char_p), ('order', c_void_p), ('micro_batches', c_uint32),
        ('ranks', c_uint32), ('optimizer', c_char_p), ('chunks', c_uint32), ('tied', c_char_p),
        ('memory_bytes', c_uint64), ('shard', c_char_p), ('optimizer_on_host', c_bool), ('activations_on_host', c_bool),
        ('window', c_uint32), ('step_rate', c_uint64), ('choose_replicas', c_bool), ('choose_devices', c_bool),
        ('choose_fewer_devices', c_bool), ('choose_variants', c_bool), ('own_order', c_bool),
        ('target', c_char_p), ('replicas', Numbers), ('devices', Numbers),
        ('pins', POINTER(Pin)), ('pin_count', c_size_t), ('budget', c_uint64), ('deadline_ns', c_uint64),
        ('watch', POINTER(Watch)),
    ]


class ExplainOptions(Options):
    _fields_ = [('budget', c_uint64), ('watch', POINTER(Watch))]


class ExportOptions(Options):
    _fields_ = [('profile', c_void_p), ('units', Numbers), ('base', c_char_p)]


class SweepOptions(Options):
    _fields_ = [
        ('cluster', c_char_p), ('schedules', POINTER(c_char_p)), ('schedule_count', c_size_t), ('ranks', Numbers),
        ('chunks', Numbers), ('micro_batches', Numbers), ('optimizer', c_char_p), ('tied', c_char_p),
        ('own_order', c_bool), ('memory_bytes', c_uint64), ('budget', c_uint64), ('threads', c_uint),
        ('watch', POINTER(Watch)),
    ]


class WeeksOptions(Options):
    _fields_ = [
        ('mtbf_ns', c_uint64), ('checkpoint_rate', c_uint64), ('checkpoint_bytes', c_uint64), ('restart_ns', c_uint64),
        ('repair_ns', c_uint64), ('elastic', c_bool), ('spares', Numbers),
    ]


class JudgeOptions(Options):
    _fields_ = [
        ('estimate', POINTER(EstimateOptions)), ('placement', c_char_p), ('schedule', c_char_p), ('ranks', c_uint32),
        ('chunks', c_uint32), ('micro_batches', c_uint32), ('recompute', c_char_p), ('blocks', Numbers),
        ('layout', c_char_p), ('expert_tensor', c_uint32), ('offloaded', c_uint32), ('memory_bytes', c_uint64),
        ('weeks', POINTER(WeeksOptions)),
    ]


class ConfigSweepOptions(Options):
    _fields_ = [
        ('estimate', POINTER(EstimateOptions)), ('devices', c_uint32), ('without', c_uint32), ('slow', c_uint32),
        ('slow_permille', c_uint32), ('global_batch', c_uint64), ('price', c_double), ('watts', c_double),
        ('tensor', Numbers), ('context', Numbers), ('expert', Numbers), ('ranks', Numbers), ('chunks', Numbers),
        ('micro_batch', Numbers), ('shards', POINTER(c_char_p)),
        ('shard_count', c_size_t), ('placement', c_char_p), ('schedules', POINTER(c_char_p)),
        ('schedule_count', c_size_t), ('target', c_char_p), ('optimizer', c_char_p), ('memory_bytes', c_uint64),
        ('budget', c_uint64), ('deadline_ns', c_uint64), ('threads', c_uint), ('watch', POINTER(Watch)),
    ]


class GenerateOptions(Options):
    _fields_ = [('name', c_char_p), ('ranks', c_uint32), ('micro_batches', c_uint32), ('chunks', c_uint32),
                ('splits', c_uint32), ('replicas', Numbers), ('segments', c_uint32), ('passes', c_uint32)]


class CsvOptions(Options):
    _fields_ = [('lowered', c_bool), ('line_feeds', c_bool), ('dialect', c_char_p)]


class PriceOptions(Options):
    _fields_ = [('costs', c_char_p), ('overlapped', c_char_p), ('kept_forward_bytes', c_uint64),
                ('kept_weight_bytes', c_uint64), ('cluster', c_char_p)]


class CheckOptions(Options):
    _fields_ = [('buffered_sends', c_uint32), ('grouped', c_bool), ('receives', c_char_p), ('shared_channels', c_bool),
                ('memory_bytes', c_uint64), ('price', POINTER(PriceOptions))]


class SearchOptions(Options):
    _fields_ = [
        ('ranks', c_uint32), ('micro_batches', c_uint32), ('chunks', c_uint32), ('placement', c_char_p),
        ('objective', c_char_p), ('price', POINTER(PriceOptions)), ('memory_bytes', c_uint64), ('budget', c_uint64),
        ('watch', POINTER(Watch)),
    ]


class Found(Structure):
    _fields_ = [('time_ns', c_uint64), ('bound_ns', c_uint64), ('gap', c_double), ('proved', c_bool),
                ('work', c_uint64), ('method', ctypes.c_char * 80), ('stopped', ctypes.c_char * 80)]


CHART, SVG, PAGE, TRACE = range(4)


class DrawOptions(Options):
    _fields_ = [('picture', c_int), ('columns', c_size_t), ('ascii', c_bool), ('colours', c_bool),
                ('messages', c_bool), ('width', c_uint32), ('title', c_char_p), ('font', c_char_p)]


class CompareOptions(Options):
    _fields_ = [('files', POINTER(c_char_p)), ('file_count', c_size_t), ('has_iteration', c_bool),
                ('iteration', c_uint32), ('profile', c_void_p)]


# --- the library --------------------------------------------------------------------------------------------------

class Handle:
    """Something of the library's, which lives as long as this object does."""

    kind = ''  # how the library's functions of it begin

    def __init__(self, address: int) -> None:
        self.address = c_void_p(address)
        weakref.finalize(self, getattr(LIBRARY, f'weir_{self.kind}_free'), address)


class _Taken:
    """An argument that is a handle of this kind, and no other: the library could not tell."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def from_param(self, given: Any) -> c_void_p:
        if not isinstance(given, Handle) or given.kind != self.kind:
            raise TypeError(f'a weir.{self.kind.capitalize()} is wanted, not {given!r}')
        return given.address


PROFILE, PLAN, SCHEDULE, SIMULATION, COMPARISON = map(
    _Taken, ('profile', 'plan', 'schedule', 'simulation', 'comparison'))

# What each function gives and takes before its last argument, a struct weir_error *.
_CALLS = {
    'parse_bytes': (c_bool, c_char_p, POINTER(c_uint64)),
    'parse_time': (c_bool, c_char_p, POINTER(c_uint64)),
    'profile_load': (c_void_p, c_char_p),
    'profile_read': (c_void_p, c_char_p, c_size_t, c_char_p),
    'profile_save': (c_bool, PROFILE, c_char_p),
    'profile_document': (c_void_p, PROFILE),
    'profile_text': (c_void_p, PROFILE),
    'profile_lint': (c_void_p, PROFILE),
    'judge': (c_bool, c_char_p, POINTER(JudgeOptions), POINTER(Answer)),
    'estimate': (c_bool, c_char_p, POINTER(EstimateOptions), POINTER(Answer), POINTER(c_void_p)),
    'partition': (c_void_p, PROFILE, POINTER(PartitionOptions)),
    'plan_load': (c_void_p, c_char_p),
    'plan_read': (c_void_p, c_char_p, c_size_t, c_char_p),
    'plan_save': (c_bool, PLAN, c_char_p),
    'plan_document': (c_void_p, PLAN),
    'plan_text': (c_void_p, PLAN),
    'plan_check': (c_bool, PLAN, PROFILE),
    'plan_prove': (c_bool, PLAN, PROFILE, c_uint64, POINTER(Watch)),
    'plan_schedule': (c_void_p, PLAN),
    'plan_simulate': (c_void_p, PLAN),
    'plan_export': (c_bool, PLAN, c_char_p, POINTER(ExportOptions), POINTER(Answer)),
    'explain': (c_bool, PLAN, PROFILE, POINTER(ExplainOptions), POINTER(Answer)),
    'second_opinion': (c_void_p, PLAN, PROFILE, POINTER(Watch)),
    'sweep': (c_bool, PROFILE, POINTER(SweepOptions), POINTER(Answer), POINTER(c_void_p)),
    'sweep_configs': (c_bool, c_char_p, POINTER(ConfigSweepOptions), POINTER(Answer), POINTER(c_void_p),
                      POINTER(c_void_p)),
    'schedule_generate': (c_void_p, POINTER(GenerateOptions)),
    'schedule_load': (c_void_p, c_char_p),
    'schedule_read': (c_void_p, c_char_p, c_size_t, c_char_p),
    'schedule_save': (c_bool, SCHEDULE, c_char_p),
    'schedule_document': (c_void_p, SCHEDULE),
    'schedule_csv': (c_void_p, SCHEDULE, POINTER(CsvOptions)),
    'schedule_check': (c_void_p, SCHEDULE, POINTER(CheckOptions)),
    'schedule_simulate': (c_void_p, SCHEDULE, POINTER(PriceOptions)),
    'search': (c_void_p, POINTER(SearchOptions), POINTER(Found)),
    'simulation_document': (c_void_p, SIMULATION),
    'simulation_text': (c_void_p, SIMULATION),
    'simulation_draw': (c_void_p, SIMULATION, POINTER(DrawOptions)),
    'plan_compare': (c_void_p, PLAN, POINTER(CompareOptions)),
    'schedule_compare': (c_void_p, SCHEDULE, POINTER(PriceOptions), POINTER(CompareOptions)),
    'comparison_document': (c_void_p, COMPARISON),
    'comparison_text': (c_void_p, COMPARISON),
    'comparison_notes': (c_void_p, COMPARISON),
    'profile_refine': (c_void_p, PROFILE, COMPARISON),
}
_FREES = ('profile_free', 'plan_free', 'schedule_free', 'simulation_free', 'comparison_free', 'text_free')


def _find() -> str:
    """Where libweir.so is: $WEIR_LIBRARY, in the package (a wheel), in the tree it is built in, or of the system."""
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, os.pardir, os.pardir, 'build', 'release', 'lib', 'libweir.so')
    for path in (os.environ.get('WEIR_LIBRARY'), os.path.join(here, 'lib', 'libweir.so'), built):
        if path and os.path.exists(path):
            return os.path.abspath(path)
    return 'libweir.so.0'


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as why:
        raise ImportError(f'libweir cannot be loaded ({why}): install the wheel that `scons wheel` makes, build the '
                          'library with `scons`, or say in WEIR_LIBRARY where libweir.so is') from why
    for name, (result, *takes) in _CALLS.items():
        function = getattr(library, 'weir_' + name)
        function.restype, function.argtypes = result, [*takes, POINTER(Error)]
    for name in _FREES:
        function = getattr(library, 'weir_' + name)
        function.restype, function.argtypes = None, [c_void_p]
    library.weir_answer_clear.restype, library.weir_answer_clear.argtypes = None, [POINTER(Answer)]
    library.weir_plan_is_proved.restype, library.weir_plan_is_proved.argtypes = c_bool, [PLAN]
    for name, result in (('ranks', c_uint32), ('micro_batches', c_uint32), ('schedule_name', c_char_p),
                         ('optimizer', c_char_p)):
        function = getattr(library, 'weir_plan_' + name)
        function.restype, function.argtypes = result, [PLAN]
    library.weir_version.restype, library.weir_version.argtypes = c_char_p, []
    return library


LIBRARY = _load()


def version() -> str:
    """The library's version, such as "0.1.0"."""
    return LIBRARY.weir_version().decode()


# --- calls --------------------------------------------------------------------------------------------------------


def call(name: str, *arguments: Any) -> Any:
    """Calls weir_NAME with an error behind the arguments; a WeirError where it gives NULL or false."""
    error = Error()
    result = getattr(LIBRARY, 'weir_' + name)(*arguments, ctypes.byref(error))
    if not result:
        raise WeirError(error.text.decode('utf-8', 'replace'), error.code)
    return result


def take_text(address: int) -> str:
    """The library's text at this address, which is then freed."""
    try:
        return _text_at(address)
    finally:
        LIBRARY.weir_text_free(address)


def run(name: str, *arguments: Any, watch: Watch, progress: Optional[Progress] = None) -> Any:
    """call() of a function that may take long, which Ctrl-C stops; `watch` is the one that its options name.

    The call runs in a thread of its own, without the interpreter's lock, and the caller waits where Python hears of
    signals. What interrupts the wait (KeyboardInterrupt, or what a signal handler or `progress` raises) stops the call.
    After a KeyboardInterrupt the best so far is returned; where there is none, and after anything else, it is raised.
    """
    stop = c_int(0)
    watch.stop = ctypes.pointer(stop)
    raised: list[BaseException] = []

    def tell(_: Any, words: bytes) -> None:
        try:
            if progress and not stop.value:
                progress(words.decode('utf-8', 'replace'))
        except BaseException as why:  # what a callback raises would be lost in the library
            raised.append(why)
            stop.value = 1

    watch.progress = PROGRESS(tell) if progress else PROGRESS()
    outcome: list[Any] = []
    begun, ended = threading.Lock(), threading.Lock()

    def work() -> None:  # has all that the call needs, should the caller leave before it ends
        if not begun.acquire(blocking=False):
            return
        try:
            outcome.append(call(name, *arguments))
        except BaseException as why:  # for the thread that waits
            outcome.append(why)
        ended.release()

    ended.acquire()
    started, interrupted = False, None
    while not outcome:
        try:
            if not started:  # an interrupt may hide that it has; a second one does nothing
                started = _thread.start_new_thread(work, ()) != 0
            ended.acquire(timeout=0.1)
        except BaseException as why:
            interrupted = interrupted or why
            stop.value = 1
    result = outcome[0]
    failed = raised[0] if raised else None if isinstance(interrupted, KeyboardInterrupt) else interrupted
    if failed is None and isinstance(result, BaseException):
        failed = interrupted or result
    if failed is not None:
        _discard(name, result)
        raise failed
    return result


def _discard(name: str, result: Any) -> None:
    """Frees what a call has made that nobody will get."""
    if isinstance(result, int) and not isinstance(result, bool):
        frees = {'partition': LIBRARY.weir_plan_free, 'search': LIBRARY.weir_schedule_free}
        frees.get(name, LIBRARY.weir_text_free)(result)


def call_answer(name: str, *arguments: Any, behind: Any = ()) -> tuple[str, str]:
    """call() of a function that fills in a struct weir_answer: the document, and what people read."""
    answer = Answer()
    try:
        call(name, *arguments, ctypes.byref(answer), *behind)
        return _text_at(answer.document), _text_at(answer.text)
    finally:
        LIBRARY.weir_answer_clear(ctypes.byref(answer))


def run_answer(name: str, *arguments: Any, behind: Any = (), watch: Watch,
               progress: Optional[Progress] = None) -> tuple[str, str]:
    """run() of a function that fills in a struct weir_answer: the document, and what people read."""
    answer = Answer()
    try:
        run(name, *arguments, ctypes.byref(answer), *behind, watch=watch, progress=progress)
        return _text_at(answer.document), _text_at(answer.text)
    finally:
        LIBRARY.weir_answer_clear(ctypes.byref(answer))


def _text_at(address: int) -> str:
    return ctypes.string_at(address).decode('utf-8', 'replace')


# --- arguments ----------------------------------------------------------------------------------------------------


def encode(text: Optional[str]) -> Optional[bytes]:
    """A string as the library takes it; None stays None, which is NULL."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f'a string is wanted, not {type(text).__name__}')
    if '\0' in text:
        raise WeirError('a text with a NUL in it is none that Weir reads')
    return text.encode()


def numbers(values: Any, name: str = 'a number', least: int = 1) -> Numbers:
    """Whole numbers, one or several, as the library takes them; None: the library's choice."""
    if values is None:
        return Numbers()
    values = [values] if isinstance(values, int) else list(values)
    for value in values:
        whole(value, name, least)
    return Numbers((c_uint32 * len(values))(*values), len(values))


def whole(value: Any, name: str, least: int = 0, most: int = 2**32 - 1) -> int:
    """A whole number in [least, most]; ctypes would cut larger ones off without a word. None is 0."""
    if value is None:
        return 0
    value = value.__index__()
    if not least <= value <= most:
        raise WeirError(f'{name}: {value} is not between {least} and {most}')
    return value


def quantity(given: Any, name: str, parse: str, units: int = 1) -> int:
    """What the library's weir_PARSE makes of a string, or a number of so many `units`. None is 0."""
    if not isinstance(given, str):
        return 0 if given is None else whole(round(given * units), name, 0, 2**53 - 1)
    value = c_uint64()
    try:
        call(parse, encode(given), ctypes.byref(value))
    except WeirError as why:
        raise WeirError(f'{name}: {why}', why.code) from None
    return value.value


def size(given: Any, name: str) -> int:
    """Bytes of "80GiB", or of a number of bytes."""
    return quantity(given, name, 'parse_bytes')


def time_ns(given: Any, name: str) -> int:
    """Nanoseconds of "10s", or of a number of seconds."""
    return quantity(given, name, 'parse_time', 1_000_000_000)


def span_ns(given: Any, name: str) -> int:
    """Nanoseconds of "3.1h", or of a number of seconds."""
    return quantity(given, name, 'parse_span', 1_000_000_000)


def rate(given: Any, name: str) -> int:
    """Bytes per second of "2TB/s", or of a number of them."""
    return quantity(given, name, 'parse_rate')
