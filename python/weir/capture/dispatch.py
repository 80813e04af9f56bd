"""What PyTorch's pipeline runtime takes for an action beside the stage's own work, on the CPU over gloo.

Two processes run 1F1B with a stage of one multiplication each. What the thread of a rank takes for a step, less what
these multiplications take by themselves, is what the runtime takes: looking up the action, posting and awaiting its
messages, keeping books. A stage pays it once for each F and each B, however many layers it has.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import List

from .errors import WeirError

RANKS, MICRO_BATCHES, WARM_UP = 2, 8, 3
DEADLINE_S = 300


def measure_dispatch(repeats: int = 20) -> int:
    """Nanoseconds of an action; the median over steps, of the slower rank."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
                       "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", __name__, folder, str(repeats)]
        started = [subprocess.Popen([*command, str(rank)], env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for rank in range(RANKS)]
        try:
            return max(result_of(process) for process in started)
        finally:
            for process in started:
                process.kill()
                process.communicate()


def result_of(process: subprocess.Popen) -> int:
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise WeirError(f"PyTorch's runtime could not be timed over gloo within {DEADLINE_S} s; leave stages out", 3)
    if process.returncode != 0:
        last = (err.strip().splitlines() or ["no output"])[-1]
        raise WeirError(f"PyTorch's runtime could not be timed over gloo ({last}); leave stages out", 3)
    return json.loads(out.strip().splitlines()[-1])


def one_f_one_b(rank: int) -> List[str]:
    """The order of a rank of two."""
    ahead = RANKS - 1 - rank
    order = [f"{rank}F{m}" for m in range(ahead)]
    for m in range(MICRO_BATCHES):
        order += [f"{rank}F{m + ahead}"] if m + ahead < MICRO_BATCHES else []
        order.append(f"{rank}B{m}")
    return order


def own_time(module, sample, loss_fn) -> int:
    """F and B of a stage by itself, with the loss where it is the last."""
    took = []
    for _ in range(200):
        leaf = sample[:1].clone().requires_grad_()
        start = time.thread_time_ns()
        out = module(leaf)
        (out if loss_fn is None else loss_fn(out, leaf)).sum().backward()
        took.append(time.thread_time_ns() - start)
    return round(statistics.median(took))


def run_rank(folder: str, repeats: int, rank: int) -> int:
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    path = os.path.join(folder, f"order{rank}.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(",".join(one_f_one_b(row)) + "\n" for row in range(RANKS))
    module, sample = torch.nn.Linear(1, 1), torch.ones(MICRO_BATCHES, 1)
    stage = PipelineStage(module, rank, RANKS, torch.device("cpu"), input_args=sample[:1], output_args=sample[:1])
    runtime = _PipelineScheduleRuntime([stage], MICRO_BATCHES, loss_fn=torch.nn.functional.mse_loss)
    runtime._load_csv(path)
    took = []
    for count in range(WARM_UP + repeats):
        start = time.thread_time_ns()
        runtime.step(*([sample] if rank == 0 else []), **({"target": sample} if rank == RANKS - 1 else {}))
        took += [time.thread_time_ns() - start] if count >= WARM_UP else []
    own = own_time(module, sample, torch.nn.functional.mse_loss if rank == RANKS - 1 else None)
    dist.destroy_process_group()
    return max(0, round(statistics.median(took) / MICRO_BATCHES - own) // 2)


if __name__ == "__main__":
    print(json.dumps(run_rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
