"""Several ranks for a test: processes that meet over gloo, each with one compute thread."""

import multiprocessing
import os
import tempfile
import traceback
from typing import Any, Callable, List

DEADLINE_S = 300  # for a rank that hangs; none of these tests takes a tenth of it


def on_ranks(ranks: int, function: Callable[..., Any], *args: Any) -> List[Any]:
    """What function(rank, *args) returns on each rank. A rank that fails fails the test, with its own words."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        answers = context.SimpleQueue()
        processes = [context.Process(target=_rank, args=(rank, ranks, f"{folder}/meet", answers, function, args))
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        try:
            got = dict(_answer(answers, processes) for _ in processes)
        finally:
            for process in processes:
                process.join(DEADLINE_S if process.exitcode is None and not _failed(processes) else 1)
                if process.is_alive():
                    process.kill()
    return [got[rank] for rank in range(ranks)]


def _failed(processes: List[Any]) -> bool:
    return any(process.exitcode not in (None, 0) for process in processes)


def _answer(answers: Any, processes: List[Any]) -> Any:
    for _ in range(DEADLINE_S * 10):
        if not answers.empty():
            rank, what, failed = answers.get()
            if failed:
                raise AssertionError(f"rank {rank} failed:\n{what}")
            return rank, what
        if all(process.exitcode is not None for process in processes):
            break
        processes[0].join(0.1)
        multiprocessing.connection.wait([process.sentinel for process in processes if process.exitcode is None], 0.1)
    raise AssertionError(f"no answer of a rank; exit codes {[process.exitcode for process in processes]}")


def _rank(rank: int, ranks: int, meet: str, answers: Any, function: Callable[..., Any], args: Any) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=ranks)
        answers.put((rank, function(rank, *args), False))
    except BaseException:
        answers.put((rank, traceback.format_exc(), True))
        os._exit(1)  # the others may wait for this rank for long
    dist.destroy_process_group()
