"""Transformers that are not here, on devices that are not here: estimates, and sweeps over configurations.

docs/estimate.md says what they are made of.
"""

from __future__ import annotations

import ctypes
import json
from typing import Iterable, Mapping, Optional, Union

from . import library
from .documents import (Choice, Document, Found, Path, Plan, Profile, Size, Sweep, Time, given_document, given_path,
                        strings, unless_stopped)
from .library import Progress, call, call_answer, encode, numbers, rate, run_answer, size, span_ns, time_ns, whole

__all__ = ['ConfigSweep', 'Estimate', 'Judgement', 'estimate', 'judge', 'sweep_configs']


class Estimate(Found):
    """Where the time of a model would go on devices that are not here: the document "weir.estimate"."""

    def __init__(self, config: bytes, options: library.EstimateOptions) -> None:
        self._config, self._options = config, options
        self._json, self._table = call_answer('estimate', config, ctypes.byref(options), behind=[None])

    def table(self) -> str:
        """Where each layer's time goes, for people."""
        return self._table

    def profile(self) -> Profile:
        """The profile to plan with, made when it is asked for."""
        profile = ctypes.c_void_p()
        call('estimate', self._config, ctypes.byref(self._options), None, ctypes.byref(profile))
        return Profile(profile.value or 0)

    def __str__(self) -> str:
        return self._table


class Judgement(Found):
    """What a layout takes that somebody has stated (docs/formats/judgement.md)."""

    def __init__(self, document: str, table: str) -> None:
        self._json, self._table = document, table

    def table(self) -> str:
        """Its time, where that goes, and its bytes, for people."""
        return self._table

    def __str__(self) -> str:
        return self._table


class ConfigSweep(Sweep):
    """The ways to share a model out over devices (docs/formats/configs.md), and the plan of the quickest of them.

    `best` is of one pipeline, and `profile` what its layers cost; None where nothing fits.
    """

    def __init__(self, document: str, table: str, best: Optional[Plan], profile: Optional[Profile]) -> None:
        super().__init__(document, table, best)
        self.profile = profile

    def __repr__(self) -> str:
        return f'<weir.ConfigSweep of {len(self)} configurations; best: {self.best!r}>'


# --- calls --------------------------------------------------------------------------------------------------------


def estimate(config: Union[Path, Document], device: Union[str, Document], *, tensor: int = 1, context: int = 1,
             expert: int = 1, data: int = 1, micro_batch: int = 1, sequence: Optional[int] = None, dtype: str = 'bf16',
             products: Optional[str] = None, like: str = 'megatron', attention: Optional[str] = None,
             overlap: Optional[str] = None, shard: str = 'none', within: Optional[int] = None,
             dispatch: Optional[str] = None, loss: Optional[str] = None, sequence_parallel: Optional[bool] = None,
             graphs: Optional[bool] = None, compiled: Optional[bool] = None, hidden_experts: Optional[bool] = None,
             blocking: bool = False, recompute_tensors: Union[str, Iterable[str]] = (),
             narrow: Union[str, Iterable[str], None] = None, gradient_bytes: Optional[int] = None,
             frozen: Union[str, Iterable[str], None] = None, lora: Union[int, str, None] = None,
             lengths: Union[str, Iterable[str], None] = None,
             without_mtp: bool = False, whole_blocks: bool = False, variants: Optional[str] = None) -> Estimate:
    """What a transformer would cost on devices that are not here: docs/estimate.md.

    `config`: a Hugging Face config.json, or what is in it. `device`: "h100-sxm", a file, or a document. `tensor`,
    `context`, `expert`, `data`: how many devices share each layer, each sequence, the experts, and the weights.
    `products`: the type that products read, such as "fp8". `like`: the framework, "megatron", "nemo", "torchtitan", ..;
    what is not given of these is as that has it: `attention`, "fused", "flash", "plain" or "recomputed"; `overlap`,
    messages behind products, "nothing", "backward" or "all"; `dispatch`, a token to "each" of its experts, or "once" to
    a group of devices that has some ("narrow": in the type of products); `loss` of the logits, "inplace" as Megatron has it, "plain" as PyTorch, "fused" as
    Transformer Engine or one "kernel" each way; `sequence_parallel`, `graphs`, `compiled`, `hidden_experts`;
    `gradient_bytes`, 2 or 4. `without_mtp`: multi-token prediction, which `config` may have, is left out.
    `shard`: what devices of `data` hold once between them, or `within` groups of so many. `blocking`: the host waits for
    each kernel (CUDA_LAUNCH_BLOCKING). `recompute_tensors`: what is not kept but computed again in the backward, of
    "norms", "activations", "latent". `narrow`: what is kept in 8 bits, of "experts" and "activations", or in 12,
    "attention"; or "none". Of fine-tuning, without a profile(): `frozen` parts, of "embedding", "attention", "mlp",
    "experts" and "head"; `lora`, a rank, or "16:attention"; `lengths` of packed sequences, "512:30%,2048:70%".
    `whole_blocks`: the profile has no cut between a block's attention and its MLP. `variants`: other ways to run each
    layer, over groups of devices, for partition(..., choose='variants'): "2,tensor4sp,context2,expert8", or "all".
    """
    options = library.EstimateOptions(
        device=given_document(device), tensor=whole(tensor, 'tensor', 1), context=whole(context, 'context', 1),
        expert=whole(expert, 'expert', 1), data=whole(data, 'data', 1),
        micro_batch=whole(micro_batch, 'micro_batch', 1), sequence=whole(sequence, 'sequence', 1), dtype=encode(dtype),
        products=encode(products), like=encode(like), attention=encode(attention), overlap=encode(overlap),
        shard=encode(shard), within=whole(within, 'within', 1), dispatch=encode(dispatch), loss=encode(loss),
        sequence_parallel=_choice(sequence_parallel), graphs=_choice(graphs), hidden_experts=_choice(hidden_experts),
        compiled=_choice(compiled), blocking=blocking, recompute_tensors=_listed(recompute_tensors), narrow=_listed(narrow),
        gradient_bytes=whole(gradient_bytes, 'gradient_bytes', 1), without_mtp=without_mtp, whole_blocks=whole_blocks,
        variants=encode(variants), **_tuning(frozen, lora, lengths))
    return Estimate(_config(config), options)


def _config(given: Union[Path, Document]) -> bytes:
    return json.dumps(given).encode() if isinstance(given, Mapping) else given_path(given)


def _choice(given: Optional[bool]) -> int:
    return 0 if given is None else 1 if given else 2


def _listed(words: Union[str, Iterable[str], None]) -> Optional[bytes]:
    return encode(words if words is None or isinstance(words, str) else ','.join(words))


def _tuning(frozen: Union[str, Iterable[str], None], lora: Union[int, str, None],
            lengths: Union[str, Iterable[str], None]) -> Mapping[str, Optional[bytes]]:
    return {'frozen': _listed(frozen), 'lora': None if lora is None else encode(str(lora)), 'lengths': _listed(lengths)}


def judge(config: Union[Path, Document], device: Union[str, Document], *, micro_batches: int, tensor: int = 1,
          context: int = 1, expert: int = 1, ranks: int = 1, chunks: Optional[int] = None, data: int = 1,
          placement: Optional[str] = None, shard: Optional[str] = None, within: Optional[int] = None, micro_batch: int = 1,
          schedule: Optional[str] = None, recompute: Union[str, int] = 'none', blocks: Choice = None,
          layout: Optional[str] = None, expert_tensor: int = 1, offloaded: int = 0, memory: Optional[Size] = None,
          sequence: Optional[int] = None,
          dtype: str = 'bf16', products: Optional[str] = None, like: str = 'megatron', attention: Optional[str] = None,
          overlap: Optional[str] = None, dispatch: Optional[str] = None, loss: Optional[str] = None,
          sequence_parallel: Optional[bool] = None, graphs: Optional[bool] = None, compiled: Optional[bool] = None,
          hidden_experts: Optional[bool] = None, blocking: bool = False,
          recompute_tensors: Union[str, Iterable[str]] = (), narrow: Union[str, Iterable[str], None] = None,
          gradient_bytes: Optional[int] = None, without_mtp: bool = False,
          frozen: Union[str, Iterable[str], None] = None, lora: Union[int, str, None] = None,
          lengths: Union[str, Iterable[str], None] = None, mtbf: Optional[Time] = None,
          checkpoint_rate: Optional[Size] = None, checkpoint: Optional[Size] = None, restart: Optional[Time] = None,
          repair: Optional[Time] = None, spares: Optional[int] = None, elastic: bool = False) -> Judgement:
    """What an iteration of this very layout takes, where that goes, what each rank holds, and whether it fits.

    `config`, `device` and how layers are estimated as estimate() takes them. `ranks` of a pipeline with `chunks` stages
    each, by `schedule` ("1f1b", or "interleaved" with chunks); `data` pipelines side by side, each with `micro_batches` of
    `micro_batch` sequences. `shard`: if not given, as the framework has it. `recompute`: "none", "selective" as the framework has it, "full", how many blocks of each
    rank, or Megatron's modules, "mlp,layernorm". `blocks` of each stage, or Megatron's `layout`, "Et*2|(t*3|)*6tmL".
    `expert_tensor`: devices that share each expert. `offloaded`: blocks of each stage whose kept bytes are on the host.
    `memory` of each device, such as "70GiB", instead of the device's own.

    Over weeks, on devices that fail: `mtbf` of any of them, such as "3.1h" or seconds; `checkpoint_rate` of all together,
    "2TB/s"; `checkpoint`, its bytes; `restart` after a failure ("10min"), and `repair` of a device. With that, `spares`
    or `elastic` is the choice that is told; otherwise all are.
    """
    estimated = library.EstimateOptions(
        device=given_document(device), tensor=whole(tensor, 'tensor', 1), context=whole(context, 'context', 1),
        expert=whole(expert, 'expert', 1), data=whole(data, 'data', 1),
        micro_batch=whole(micro_batch, 'micro_batch', 1), sequence=whole(sequence, 'sequence', 1),
        dtype=encode(dtype), products=encode(products), like=encode(like), attention=encode(attention),
        overlap=encode(overlap), shard=encode(shard), within=whole(within, 'within', 1), dispatch=encode(dispatch),
        loss=encode(loss), sequence_parallel=_choice(sequence_parallel), graphs=_choice(graphs),
        hidden_experts=_choice(hidden_experts), compiled=_choice(compiled), blocking=blocking,
        recompute_tensors=_listed(recompute_tensors), narrow=_listed(narrow),
        gradient_bytes=whole(gradient_bytes, 'gradient_bytes', 1), without_mtp=without_mtp,
        **_tuning(frozen, lora, lengths))
    options = library.JudgeOptions(
        estimate=ctypes.pointer(estimated), placement=encode(placement), schedule=encode(schedule),
        ranks=whole(ranks, 'ranks', 1), chunks=whole(chunks, 'chunks', 1),
        micro_batches=whole(micro_batches, 'micro_batches', 1),
        recompute=encode(str(recompute)), blocks=numbers(blocks, 'blocks', 0), layout=encode(layout),
        expert_tensor=whole(expert_tensor, 'expert_tensor', 1), offloaded=whole(offloaded, 'offloaded'),
        memory_bytes=size(memory, 'memory'))
    if elastic or any(one is not None for one in (mtbf, checkpoint_rate, checkpoint, restart, repair, spares)):
        options.weeks = ctypes.pointer(library.WeeksOptions(
            mtbf_ns=span_ns(mtbf, 'mtbf'), checkpoint_rate=rate(checkpoint_rate, 'checkpoint_rate'),
            checkpoint_bytes=size(checkpoint, 'checkpoint'), restart_ns=span_ns(restart, 'restart'),
            repair_ns=span_ns(repair, 'repair'), elastic=elastic, spares=numbers(spares, 'spares', 0)))
    return Judgement(*call_answer('judge', _config(config), ctypes.byref(options)))


def sweep_configs(config: Union[Path, Document], device: Union[str, Document], *, devices: int, global_batch: int,
                  without: int = 0, slow: int = 0, slow_rate: float = 1, tensor: Choice = None,
                  context: Choice = None, expert: Choice = None, ranks: Choice = None, chunks: Choice = None,
                  micro_batch: Choice = None, placement: Optional[str] = None,
                  shard: Union[str, Iterable[str]] = (), schedules: Union[str, Iterable[str]] = (),
                  target: Optional[str] = None, optimizer: str = 'adamw-master', memory: Optional[Size] = None,
                  price: float = 0, watts: float = 0,
                  sequence: Optional[int] = None, dtype: str = 'bf16', products: Optional[str] = None,
                  like: str = 'megatron', attention: Optional[str] = None, overlap: Optional[str] = None,
                  dispatch: Optional[str] = None, loss: Optional[str] = None,
                  sequence_parallel: Optional[bool] = None, graphs: Optional[bool] = None,
                  compiled: Optional[bool] = None, hidden_experts: Optional[bool] = None, blocking: bool = False,
                  recompute_tensors: Union[str, Iterable[str]] = (),
                  narrow: Union[str, Iterable[str], None] = None, within: Optional[int] = None,
                  gradient_bytes: Optional[int] = None, without_mtp: bool = False, budget: Optional[int] = None,
                  deadline: Optional[Time] = None, threads: Optional[int] = None,
                  progress: Optional[Progress] = None) -> ConfigSweep:
    """A plan for every way to share a transformer out over devices that are not here: docs/estimate.md.

    `config`, `device` and how layers are estimated as estimate() takes them. `devices`: how many there are; `without`:
    of them that are missing; `slow`: of the rest that have `slow_rate` of the others' rate, such as 0.8, and whether
    they are worth it. `global_batch`: sequences of an iteration. What may be chosen, a number or several, and every way
    that may be good if not given: the degrees `tensor`, `context` and `expert`; `ranks` of a pipeline and `chunks`,
    stages on each; `micro_batch`, sequences in one; `shard`, what devices with the same part of the model hold once
    (none, optimizer, gradients, weights); `placement`, "tp-cp-ep-dp-pp" or "tp-cp-ep-pp-dp"; `schedules`, such as
    flush. `target`: only plans that this framework can be told, "megatron" or "torchtitan".
    `optimizer`: adamw-master (the usual), which trains in 16 bits, or another that partition() takes.

    `memory` of each device, such as "70GiB", instead of the device's own. `price` and `watts` of a device for an hour:
    what 10^9 tokens cost, and take. `budget`: units of work for each of the best plans. `deadline`: seconds, or "10s";
    what is tried then varies. Ctrl-C ends it with the best so far; KeyboardInterrupt where there is none.
    """
    shards, names = strings(shard), strings(schedules)
    watch, best, profile = library.Watch(), ctypes.c_void_p(), ctypes.c_void_p()
    estimated = library.EstimateOptions(
        device=given_document(device), sequence=whole(sequence, 'sequence', 1), dtype=encode(dtype),
        products=encode(products), like=encode(like), attention=encode(attention), overlap=encode(overlap),
        dispatch=encode(dispatch), loss=encode(loss), sequence_parallel=_choice(sequence_parallel),
        graphs=_choice(graphs), hidden_experts=_choice(hidden_experts), compiled=_choice(compiled), blocking=blocking,
        recompute_tensors=_listed(recompute_tensors), narrow=_listed(narrow), within=whole(within, 'within', 1),
        gradient_bytes=whole(gradient_bytes, 'gradient_bytes', 1), without_mtp=without_mtp)
    options = library.ConfigSweepOptions(
        estimate=ctypes.pointer(estimated), devices=whole(devices, 'devices', 1), without=whole(without, 'without'),
        slow=whole(slow, 'slow'), slow_permille=whole(round(slow_rate * 1000), 'slow_rate in thousandths', 1, 1000),
        placement=encode(placement),
        global_batch=whole(global_batch, 'global_batch', 1, 2**53 - 1), price=price, watts=watts,
        tensor=numbers(tensor, 'tensor'), context=numbers(context, 'context'), expert=numbers(expert, 'expert'),
        ranks=numbers(ranks, 'ranks'), chunks=numbers(chunks, 'chunks'),
        micro_batch=numbers(micro_batch, 'micro_batch'), shards=shards, shard_count=len(shards), schedules=names,
        schedule_count=len(names), target=encode(target), optimizer=encode(optimizer),
        memory_bytes=size(memory, 'memory'), budget=whole(budget, 'budget', 1, 2**53 - 1),
        deadline_ns=time_ns(deadline, 'deadline'), threads=whole(threads, 'threads', 1, 1024), watch=ctypes.pointer(watch))
    try:
        texts = run_answer('sweep_configs', _config(config), ctypes.byref(options),
                           behind=[ctypes.byref(best), ctypes.byref(profile)], watch=watch, progress=progress)
    finally:  # they are ours whatever else went wrong
        suggested = Plan(best.value) if best.value else None
        costs = Profile(profile.value) if profile.value else None
    return unless_stopped(ConfigSweep(*texts, suggested, costs))
