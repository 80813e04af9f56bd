"""Several ranks for a test: processes that meet over gloo, each with one compute thread.

Importing PyTorch takes seconds, and a program of tests starts dozens of ranks. So the program is forked once, before
its first test: this process (the nursery) has all imports, computes nothing, and each rank is a fork of it. Tests that
use ranks import setUpModule and tearDownModule, too, which unittest calls:

    from ranks import on_ranks, setUpModule, tearDownModule
"""

import contextlib
import gc
import io
import multiprocessing
import multiprocessing.connection
import os
import runpy
import sys
import tempfile
import traceback
from typing import Any, Callable, List, Tuple

DEADLINE_S = 300  # for a rank that hangs; none of these tests takes a tenth of it
FORK = multiprocessing.get_context("fork")


class _Nursery:
    """The process that ranks are forks of, seen from the tests."""

    def __init__(self) -> None:
        self.pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=_serve, args=(self.pipe, theirs))
        self.process.start()
        theirs.close()


_nursery: List[_Nursery] = []


def setUpModule() -> None:  # pylint: disable=invalid-name
    _nursery.append(_Nursery())


def tearDownModule() -> None:  # pylint: disable=invalid-name
    nursery = _nursery.pop()
    nursery.pipe.close()
    nursery.process.join()


def on_ranks(ranks: int, function: Callable[..., Any], *args: Any) -> List[Any]:
    """What function(rank, *args) returns on each rank. A rank that fails fails the test, with its own words."""
    pipe = _nursery[0].pipe
    pipe.send((ranks, function, args))
    failed, made = pipe.recv()
    if failed:
        raise AssertionError(made)
    return made


def run_script(ranks: int, folder: str, *command: str) -> List[str]:
    """What a script prints on each rank: started in the folder, by the variables that torchrun sets."""
    return on_ranks(ranks, _script, folder, list(command))


# --- in the nursery ------------------------------------------------------------------------------

def _serve(theirs: Any, pipe: Any) -> None:
    theirs.close()  # so that this process sees the end of the tests
    gc.freeze()  # what is imported is no garbage, and stays on pages that all ranks share
    while True:
        try:
            what = pipe.recv()
        except EOFError:
            return
        try:
            answer = False, _run(*what)
        except AssertionError as error:
            answer = True, str(error)
        pipe.send(answer)


def _run(ranks: int, function: Callable[..., Any], args: Tuple[Any, ...]) -> List[Any]:
    with tempfile.TemporaryDirectory() as folder:
        answers = FORK.SimpleQueue()
        processes = [FORK.Process(target=_rank, args=(rank, ranks, f"{folder}/meet", answers, function, args))
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
                    process.join()
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
    if dist.is_initialized():
        dist.destroy_process_group()


def _script(rank: int, folder: str, command: List[str]) -> str:
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if rank == 0 else None
    port, ranks = [store.port if store is not None else None], dist.get_world_size()
    dist.broadcast_object_list(port)
    dist.destroy_process_group()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port[0]), TORCHELASTIC_USE_AGENT_STORE="True")  # which is that store
    os.chdir(folder)
    sys.argv = command
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runpy.run_path(command[0], run_name="__main__")
    return said.getvalue()
