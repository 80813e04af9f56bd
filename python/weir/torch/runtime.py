"""PyTorch's runtime for a pipe: its own schedule class where that has the very order, and else its CSV runtime.

In a profiler's trace every class but one says which action it runs; Schedule1F1B does not, so NamedStage does it.
`weir simulate --trace` reads them all.
"""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Optional

from torch.distributed import pipelining
from torch.distributed.pipelining import schedules
from torch.profiler import record_function

from .pipes import Pipe

_OWN = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B,
        "interleaved": pipelining.ScheduleInterleaved1F1B, "looped-bfs": pipelining.ScheduleLoopedBFS,
        "interleaved-zb": pipelining.ScheduleInterleavedZeroBubble, "zb-v": pipelining.ScheduleZBVZeroBubble,
        "dualpipev": schedules.ScheduleDualPipeV, "forward-only": schedules._ScheduleForwardOnly}


class NamedStage(pipelining.PipelineStage):
    """A stage that can be told to call its forwards and backwards by their names: PP:0F1, PP:0B1.

    Where none of the tensors that it gets needs a gradient, as behind frozen layers, I has nothing to do, and a split
    backward would lose the gradients of the stage: all is done in W, as PyTorch does it in the first stage.
    """

    says_actions = False

    def __init__(self, *args: Any, takes_gradient: bool = True, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.takes_gradient = takes_gradient
        self._all_in_weight: dict[int, tuple[tuple, dict]] = {}  # backwards that wait for W

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        if not self.says_actions:
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        with record_function(f"PP:{self.stage_index}F{fwd_chunk_id}"):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        if not self.takes_gradient and not kwargs.get("full_backward", True) and not self.is_first:
            self._all_in_weight[bwd_chunk_id] = args, {**kwargs, "full_backward": True}
            self.bwd_cache[bwd_chunk_id] = (None,) * len(self._stage_meta.inputs)
            return None
        if not self.says_actions:
            return super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)
        with record_function(f"PP:{self.stage_index}B{bwd_chunk_id}"):
            return super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> Any:
        if bwd_chunk_id not in self._all_in_weight:
            return super().backward_weight_one_chunk(bwd_chunk_id, last_backward=last_backward)
        args, kwargs = self._all_in_weight.pop(bwd_chunk_id)
        super().backward_one_chunk(bwd_chunk_id, *args, **{**kwargs, "last_backward": last_backward})
        self.bwd_cache.pop(bwd_chunk_id)  # was sent behind I
        return None


def make_forward_only(pipe: Pipe, stages: Sequence[NamedStage]) -> Any:
    """A schedule object of the pipe's forwards alone, each rank's in their order."""
    forwards = pipe.forwards()
    own = _own_runtime("forward-only", forwards, stages, None)
    if own is not None:
        return own
    runtime = schedules._PipelineScheduleRuntime(list(stages), len(pipe.micro_batches), scale_grads=False)
    runtime.stage_index_to_group_rank = dict(enumerate(pipe.rank_of))
    for stage in stages:
        stage.stage_index_to_group_rank = runtime.stage_index_to_group_rank
    # What it reads must have backwards, so it is told what it makes of that: actions with their messages.
    actions = {rank: [schedules._Action.from_str(cell) for cell in cells]
               for rank, cells in enumerate(forwards.cells())}
    actions = schedules._add_send_recv(actions, lambda stage: pipe.rank_of[stage], len(pipe.rank_of))
    runtime.pipeline_order_with_comms = schedules._add_wait_send(actions)
    return runtime


def make_runtime(name: str, pipe: Pipe, stages: Sequence[NamedStage], loss_fn: Optional[Callable]) -> Any:
    """The schedule object of PyTorch whose step does what the pipe says. It leaves gradients unscaled."""
    own = _own_runtime(name, pipe, stages, loss_fn)
    for stage in stages:
        stage.says_actions = isinstance(own, pipelining.Schedule1F1B)
    return own or _by_csv(pipe, stages, loss_fn)


def _by_csv(pipe: Pipe, stages: Sequence[NamedStage], loss_fn: Optional[Callable]) -> Any:
    runtime = schedules._PipelineScheduleRuntime(list(stages), len(pipe.micro_batches), loss_fn=loss_fn,
                                                 scale_grads=False)
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        file.write(pipe.csv)
        file.flush()
        runtime._load_csv(file.name, format="compute_only")
    return runtime


def _own_runtime(name: str, pipe: Pipe, stages: Sequence[NamedStage], loss_fn: Optional[Callable]) -> Any:
    """PyTorch's class of that name, if its order is the pipe's: compared, since classes differ between releases."""
    maker = _OWN.get(name)
    if maker is None:
        return None
    single = issubclass(maker, schedules.PipelineScheduleSingle)
    if single and len(pipe.rank_of) != len(pipe.ranks):
        return None
    try:
        own = maker(stages[0] if single else list(stages), len(pipe.micro_batches), loss_fn=loss_fn, scale_grads=False)
    except ValueError:  # numbers of micro-batches or stages that this class does not take
        return None
    return own if _order_of(own, pipe) == pipe.cells() else None


def _order_of(own: Any, pipe: Pipe) -> list[list[str]]:
    ranks, micro_batches = range(len(pipe.ranks)), range(len(pipe.micro_batches))
    if isinstance(own, schedules._ScheduleForwardOnly):  # which has no list of what it does
        return [[f"{rank}F{number}" for number in micro_batches] for rank in ranks]
    if isinstance(own, pipelining.Schedule1F1B):  # whose list (2.15) is not what it does: the last rank's F0 is missing
        return [_order_of_1f1b(rank, len(ranks), len(micro_batches)) for rank in ranks]
    return [[str(action) for action in own.pipeline_order[rank] if action is not None and action.is_compute_op]
            for rank in ranks]


def _order_of_1f1b(rank: int, ranks: int, micro_batches: int) -> list[str]:
    forwards = [f"{rank}F{number}" for number in range(micro_batches)]
    order = forwards[:ranks - rank]  # which fill the pipe
    for number in range(micro_batches):
        order += [f"{rank}B{number}", *forwards[ranks - rank + number:][:1]]
    return order
