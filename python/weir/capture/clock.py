"""What time is taken by.

On a CPU with one compute thread it is the thread's own time, since other work on the machine is none of a layer's
(docs/decisions/020); with several it is the wall clock, and on a GPU the time between two events of its stream.
"""

import time
from typing import Any, Callable, List, Tuple

import torch

from .errors import refusal


class Clock:
    """Marks are taken around work; `settle` turns pairs of them into nanoseconds."""

    name = "wall"

    def mark(self) -> Any:
        return time.perf_counter_ns()

    def settle(self, pairs: List[Tuple[Any, Any]]) -> List[int]:
        return [end - start for start, end in pairs]

    def timed(self, pairs: List[Tuple[Any, Any]], work: Callable[[], Any]) -> Any:
        start = self.mark()
        result = work()
        pairs.append((start, self.mark()))
        return result


class ThreadClock(Clock):
    name = "thread_cpu"

    def mark(self) -> Any:
        return time.thread_time_ns()


class EventClock(Clock):
    name = "cuda events"

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self, pairs: List[Tuple[Any, Any]]) -> List[int]:
        torch.cuda.synchronize()
        return [round(start.elapsed_time(end) * 1e6) for start, end in pairs]


CLOCKS = {"thread_cpu": ThreadClock, "wall": Clock}


def clock_for(device: torch.device, name: Any = None) -> Clock:
    if device.type == "cuda":
        return EventClock()
    if name is None:
        return ThreadClock() if torch.get_num_threads() == 1 else Clock()
    if name not in CLOCKS:
        raise refusal(f"clock is {name!r}, and must be 'thread_cpu' or 'wall'")
    return CLOCKS[name]()
