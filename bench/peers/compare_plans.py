#!/usr/bin/env python3
"""Weir's plans against an even split and auto_partition's cut, all run by PyTorch, turn by turn in one run.

    compare_plans.py [MODEL ...] [--schedule 1f1b] [--ranks 2] [--micro-batches 8] [--rounds 10] [--no-verify]

For each model: profiled on all ranks at once, since they share the machine's memory as in a run, planned for the
measured links, and run by torch.distributed.pipelining over gloo, one compute thread for each rank. Its peers are the
same model with the same schedule and micro-batches, cut into stages of as many layers each, as is done where nothing
was measured, and cut as PyTorch's auto_partition does (auto_partition.py) from the same profile. Iterations alternate,
and medians are compared: a peer's time / planned time, the time that Weir has predicted, the peak bytes that it has
against those that PyTorch's allocator counts in a step, and the largest relative difference of the pipeline's gradients
from the whole model's. A cut of auto_partition that is the plan's own is not run again, and has the ratio 1.

Exits with 1 when a plan is slower than 0.98 of a peer, or by simulation slower than auto_partition's at all, the median
gain over the even split is below 1.15, a prediction is more than 10 % off, a peak more than 5 %, or gradients differ by
more than 1e-4. Needs the package weir, PyTorch, and for their
models torchvision and transformers; leaves out a model that cannot be made, and says so. Run it where nothing else runs.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
import time

GAIN_LEAST, GAIN_MEDIAN, PREDICTION_OFF, PEAK_OFF, GRADIENTS_OFF = 0.98, 1.15, 0.10, 0.05, 1e-4


def mlp(batch):
    """Layers as uneven as they come: wide ones first."""
    import torch
    from torch import nn
    widths = [1024, 1024, 1024, 768, 512, 512, 256, 256, 256, 256, 128, 128, 128]
    layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(widths, widths[1:])]
    return nn.Sequential(*layers, nn.Linear(128, 10)), torch.randn(64 * batch, 1024), torch.randint(10, (64 * batch,))


def image_model(make, side, batch):
    import torch
    return make(num_classes=10), torch.randn(batch, 3, side, side), torch.randint(10, (batch,))


def vgg16(batch):
    from torchvision.models import vgg16 as make
    return image_model(lambda **more: make(dropout=0.0, **more), 64, 2 * batch)


def resnet50(batch):
    from torchvision.models import resnet50 as make
    return image_model(make, 96, 2 * batch)


def vit(batch):
    from torchvision.models import VisionTransformer
    return image_model(lambda **more: VisionTransformer(image_size=64, patch_size=8, num_layers=6, num_heads=6,
                                                        hidden_dim=192, mlp_dim=768, **more), 64, 4 * batch)


def gpt(batch):
    """10 M parameters, in PyTorch's own blocks."""
    import torch
    from torch import nn

    class Gpt(nn.Module):
        def __init__(self, words=256, length=64, width=384):
            super().__init__()
            self.words, self.positions = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.0, batch_first=True,
                                                                   norm_first=True) for _ in range(6))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

        def forward(self, ids):
            now = self.words(ids) + self.positions
            for block in self.blocks:
                now = block(now, src_mask=self.mask)
            return self.head(self.norm(now))

    return Gpt(), torch.randint(256, (2 * batch, 64)), torch.randint(256, (2 * batch, 64))


def gpt2(batch):
    """GPT-2 small made smaller, with as much of the work in its head: 0.45 of what the blocks do."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=8192, n_positions=64, n_embd=256, n_layer=6, n_head=4, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, tie_word_embeddings=False, bos_token_id=0,
                        eos_token_id=0)
    return GPT2LMHeadModel(config), torch.randint(8192, (2 * batch, 64)), torch.randint(8192, (2 * batch, 64))


def llama(batch):
    """Llama 3.2 1B made smaller, with as much of the work in its head: 0.27 of what the blocks do."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=5120, hidden_size=256, intermediate_size=688, num_hidden_layers=6,
                         num_attention_heads=4, max_position_embeddings=64, use_cache=False)
    return LlamaForCausalLM(config), torch.randint(5120, (2 * batch, 64)), torch.randint(5120, (2 * batch, 64))


MODELS = {maker.__name__: maker for maker in (mlp, vgg16, resnet50, vit, gpt, gpt2, llama)}


def loss_of(output, target):
    from torch.nn.functional import cross_entropy
    output = getattr(output, "logits", output)
    return cross_entropy(output.flatten(0, -2), target.flatten())


def planned(model, inputs, target, arguments):
    """The plan, that of an even split and that of auto_partition's cut, all made by rank 0."""
    import torch.distributed as dist
    import weir
    from auto_partition import auto_partition, even_split
    cluster, made = weir.torch.links(), [None]
    sample = sample_of(inputs, arguments)
    profile = weir.profile(model, sample, loss_fn=loss_of, target=sample_of(target, arguments),
                           stages=arguments.ranks if arguments.price_dispatch else None)
    if dist.get_rank() == 0:
        request = {"schedule": arguments.schedule, "micro_batches": arguments.micro_batches,
                   "optimizer": "sgd"}  # steps are made without any: no moments
        plan = weir.partition(profile, cluster, **request)
        stages = len(plan.document["stages"])
        peer, _ = auto_partition(profile, cluster, stages, **request)
        made = [[which.json() for which in (plan, even_split(profile, cluster, stages, **request), peer)]]
    dist.broadcast_object_list(made)
    return [weir.Plan.from_json(text) for text in made[0]]


def sample_of(batch, arguments):
    return batch[:len(batch) // arguments.micro_batches]


def timed_ms(pipeline, inputs, target):
    """One iteration, from when all ranks are there to when all are done."""
    import torch.distributed as dist
    for parameter in pipeline.parameters():
        parameter.grad = None
    dist.barrier()
    begin = time.perf_counter()
    pipeline.step(inputs, target=target)
    dist.barrier()
    return (time.perf_counter() - begin) * 1e3


def peak_off(pipeline, plan, inputs, target):
    """The largest share, of all ranks, by which the plan's peak bytes differ from those counted in a step."""
    import torch
    import torch.distributed as dist
    from weir.capture.memory import levels_of
    def size(tensors):
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    parameters = list(pipeline.parameters())
    for parameter in parameters:
        parameter.grad = None  # as an optimizer's zero_grad() does; a step adds its own up beside those of before
    _, levels = levels_of(torch.device("cpu"),
                          lambda around: around("step", lambda: pipeline.step(inputs, target=target)))
    counted = size(parameters) + levels["step"].peak
    predicted = sum(plan.document["stages"][stage]["memory"]["peak_bytes"] for stage in pipeline.stages)
    off = torch.tensor([predicted / counted - 1, 1 - predicted / counted])
    dist.all_reduce(off, op=dist.ReduceOp.MAX)
    return off[0].item() if off[0] > off[1] else -off[1].item()


def compare(name, arguments):
    """Median iterations of the even split, the plan and auto_partition's cut, how much slower the last is by simulation,
    what was predicted, and how far peak and gradients are."""
    import torch
    import weir
    from auto_partition import iteration_ns, stages_of
    torch.manual_seed(1)
    model, inputs, target = MODELS[name](arguments.micro_batches)
    plan, even_plan, peer = planned(model, inputs, target, arguments)
    simulated = iteration_ns(peer) / iteration_ns(plan)
    off = weir.torch.verify(model, plan, inputs, target, loss_of) if arguments.verify else None
    contenders = [even_plan, plan] + ([] if stages_of(peer) == stages_of(plan) else [peer])
    pipelines = [weir.torch.pipeline(copy.deepcopy(model), which, sample_of(inputs, arguments), loss_fn=loss_of)
                 for which in contenders]
    times = [[] for _ in contenders]
    for round_number in range(arguments.rounds + 2):
        for turn in range(len(contenders)):
            which = (round_number + turn) % len(contenders)
            time_ms = timed_ms(pipelines[which], inputs, target)
            if round_number >= 2:  # the first ones open connections and warm up
                times[which].append(time_ms)
    even, ours, *auto = map(statistics.median, times)
    return (even, ours, auto[0] if auto else ours, simulated, plan.document["predicted"]["iteration_ns"] / 1e6,
            peak_off(pipelines[1], plan, inputs, target), off.gradients.relative if off else 0.0)


def as_rank(arguments):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    speaks = dist.get_rank() == 0
    rows = []
    for name in arguments.models:
        try:
            MODELS[name](arguments.micro_batches)
        except ImportError as missing:
            if speaks:
                print(f"{name:10} left out: {missing}", flush=True)
            continue
        even, ours, auto, simulated, predicted, peak, off = compare(name, arguments)
        rows.append((even / ours, abs(predicted / ours - 1), abs(peak), off, auto / ours, simulated))
        if speaks:
            print(f"{name:10} even {even:8.1f} ms   plan {ours:8.1f} ms   even/plan {even / ours:5.3f}   "
                  f"auto_partition/plan {auto / ours:5.3f} (simulated {simulated:5.3f})   predicted {predicted:8.1f} ms "
                  f"({100 * (predicted / ours - 1):+5.1f} %)   peak {100 * peak:+5.1f} %   gradients {off:.1e}", flush=True)
    dist.destroy_process_group()
    return judged(rows, speaks)


def judged(rows, speaks):
    """Whether all that is promised holds, printed in a line."""
    if not rows:
        return 1
    gains = [row[0] for row in rows]
    worst, peak, off = (max(row[place] for row in rows) for place in (1, 2, 3))
    auto, simulated = ([row[place] for row in rows] for place in (4, 5))
    good = (min(gains + auto) >= GAIN_LEAST and min(simulated) >= 1 and statistics.median(gains) >= GAIN_MEDIAN
            and worst <= PREDICTION_OFF and peak <= PEAK_OFF and off <= GRADIENTS_OFF)
    if speaks:
        print(f"even/plan: median {statistics.median(gains):.3f}, least {min(gains):.3f}; auto_partition/plan: median "
              f"{statistics.median(auto):.3f}, least {min(auto):.3f}, simulated at least {min(simulated):.3f}; predictions "
              f"at most {100 * worst:.1f} % off, peaks {100 * peak:.1f} %; gradients at most {off:.1e}: "
              f"{'holds' if good else 'does not hold'}")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-verify", dest="verify", action="store_false")
    parser.add_argument("--no-dispatch", dest="price_dispatch", action="store_false",
                        help="do not measure what PyTorch's runtime takes for an action")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}: there are {', '.join(MODELS)}")
    if "RANK" in os.environ:
        return as_rank(arguments)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(arguments.ranks)]
    ended = subprocess.run([*command, __file__, *sys.argv[1:]], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
