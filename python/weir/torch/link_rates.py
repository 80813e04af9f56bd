"""weir.torch.links: what messages between the ranks take, as PyTorch sends them, in the words of a cluster."""

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
import torch.distributed as dist

from .pipelines import device_of
from ..capture.errors import refusal

SIZES = tuple(1 << power for power in range(10, 25))  # 1 KiB to 16 MiB, as `weir profile --links`


def links(memory: Union[str, int, None] = None, *, group: Optional[dist.ProcessGroup] = None, device: Any = None,
          repeats: int = 20) -> str:
    """The cluster of these ranks, such as "2 devices, 16GiB, 12GB/s 5us": what `weir.partition` takes.

    Each rank sends to the next and gets it back, in messages of 1 KiB to 16 MiB, while the others are idle. Latency and
    rate are fitted to the medians with the least relative errors, and the slowest link stands for all. Every rank
    calls it, and each gets the same answer.

    Args:
        memory: of each device, as "16GiB" or in bytes; without it what the GPU has free that has the least, or an equal
            part of this machine's memory.
    """
    ranks = dist.get_world_size(group)
    if ranks < 2:
        raise refusal("one rank has no link: start two or more, as torchrun --nproc-per-node 2")
    where = device_of(device, group)
    fits = [fit_line(SIZES, _medians_s(first, group, where, repeats)) for first in range(ranks - 1)]
    everyone: list[Any] = [None] * ranks
    dist.all_gather_object(everyone, _free_bytes(where, ranks), group=group)
    return synopsis(ranks, min(everyone) if memory is None else memory, max(fit[0] for fit in fits),
                    max(fit[1] for fit in fits))


def synopsis(ranks: int, memory: Union[str, int], latency_s: float, seconds_per_byte: float) -> str:
    """A cluster in one line. Memory goes down and times go up to what the line can say."""
    of_each = memory if isinstance(memory, str) else f"{memory >> 20}MiB"
    return f"{ranks} devices, {of_each}, {max(1, int(1e-6 / seconds_per_byte))}MB/s {max(1, round(latency_s * 1e9))}ns"


def fit_line(sizes: Sequence[int], times_s: Sequence[float]) -> tuple[float, float]:
    """Seconds of latency and per byte whose relative errors are the least, in squares. Neither is below zero."""
    # Each equation latency + size * rate = time, divided by its time, is (1/time) latency + (size/time) rate = 1.
    rows = [(1 / time_s, size / time_s) for size, time_s in zip(sizes, times_s)]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(row[0] for row in rows), sum(row[1] for row in rows)
    latency, per_byte = (a * bb - b * ab) / (aa * bb - ab * ab), (aa * b - ab * a) / (aa * bb - ab * ab)
    if latency < 0:
        return 0.0, b / bb
    return (latency, per_byte) if per_byte > 0 else (a / aa, 1e-15)


def _medians_s(first: int, group: Optional[dist.ProcessGroup], device: torch.device, repeats: int) -> list[float]:
    """What a message from rank `first` to the next takes, by size; the same on every rank."""
    medians: list[Any] = [None]
    rank = dist.get_rank(group)
    if rank in (first, first + 1):
        times = []
        for size in SIZES:
            buffer = torch.zeros(size, dtype=torch.uint8, device=device)
            trips = [_round_trip_s(buffer, rank == first, 2 * first + 1 - rank, group) for _ in range(repeats + 3)]
            times.append(statistics.median(trips[3:]) / 2)  # the first ones open connections
        medians = [times]
    dist.broadcast_object_list(medians, group=group, group_src=first)
    return medians[0]


def _round_trip_s(buffer: torch.Tensor, begins: bool, peer: int, group: Optional[dist.ProcessGroup]) -> float:
    peer = peer if group is None else dist.get_global_rank(group, peer)
    begin = time.perf_counter()
    for operation in (dist.isend, dist.irecv) if begins else (dist.irecv, dist.isend):
        for work in dist.batch_isend_irecv([dist.P2POp(operation, buffer, peer, group)]):
            work.wait()
    if buffer.is_cuda:
        torch.cuda.synchronize(buffer.device)
    return time.perf_counter() - begin


def _free_bytes(device: torch.device, ranks: int) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // ranks
