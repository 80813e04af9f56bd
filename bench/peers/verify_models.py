#!/usr/bin/env python3
"""Models of torchvision, timm, transformers and peft by four schedules in PyTorch's runtime, held against the whole model
on one process.

    verify_models.py [MODEL ...] [--schedules 1f1b,interleaved,zb-v,search] [--table]

Each model is profiled once, planned for two devices, and run by weir.torch on two processes over gloo, one compute
thread each; `search` is the order that weir.search() finds for the stages of a plan by zb-h1, from what they cost. A
line says for each whether losses, gradients, weights behind an optimizer's step and buffers equal the whole model's to
the bit, or how large the largest relative difference is, and whose; or why it was refused. Models of transformers get
what their tokenizers make, padded masks included, and their own loss. Words that two layers share are added up in
another order, and differ by some 1e-7. `--table` writes the table of docs/pytorch.md.

Exits with 1 when one is above 1e-5, or fails in any way but a refusal. Needs the package weir, PyTorch, and for their
models torchvision, timm, transformers and peft; leaves out a model that cannot be made, and says so.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "tests", "torch"))

TOLERANCE = 1e-5
RANKS, MICRO_BATCHES, SAMPLES = 2, 4, 2  # of each micro-batch
CLUSTER = f"{RANKS} devices, 16GiB, 12GB/s 5us"
SCHEDULES = ("1f1b", "interleaved", "zb-v", "search")


def loss_of(output, target):
    from torch.nn.functional import cross_entropy
    output = getattr(output, "logits", output)
    return cross_entropy(output.flatten(0, -2), target.flatten())


def of_timm(name, **sizes):
    def make(batch):
        import timm
        import torch
        return timm.create_model(name, num_classes=10, **sizes), torch.randn(batch, 3, 32, 32)
    return make


def with_lora(batch):
    import peft
    import models
    model, inputs = models.llama(batch=batch)
    return peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])), inputs


def makers():
    """By name, what makes a model and its inputs, or the name of a family of transformers."""
    import families
    import models
    made = {**models.SEVEN, "llama-lora": with_lora,
            "timm-vit": of_timm("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=4),
            "timm-convnext": of_timm("convnext_atto"),
            "timm-mobilenet": of_timm("mobilenetv3_small_050"),
            "timm-resnet": of_timm("resnet18")}
    return {**made, **{f"hf-{name}": name for name in families.FAMILIES}}


def make(name):
    """The model, inputs and targets of an iteration, and the loss. Nothing is dropped, since two runs would drop other
    numbers."""
    import families
    import torch
    maker = makers()[name]
    if isinstance(maker, str):
        import transformers
        transformers.logging.set_verbosity_error()
        return families.family(maker), families.sample_of(maker, batch=SAMPLES * MICRO_BATCHES), None, None
    torch.manual_seed(0)
    model, inputs = maker(batch=SAMPLES * MICRO_BATCHES)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    was_training = model.training
    with torch.no_grad():
        output = model.eval()(**inputs) if isinstance(inputs, dict) else model.eval()(inputs)
    model.train(was_training)
    logits = getattr(output, "logits", output)
    return model, inputs, torch.randint(logits.shape[-1], logits.shape[:-1]), loss_of


def plan_for(profile, schedule):
    """A plan's document, and that of its order if it is a searched one."""
    import weir
    if schedule != "search":
        return weir.partition(profile, CLUSTER, schedule=schedule, micro_batches=MICRO_BATCHES).json(), None
    plan = weir.partition(profile, CLUSTER, schedule="zb-h1", micro_batches=MICRO_BATCHES)
    order = weir.search(ranks=RANKS, micro_batches=MICRO_BATCHES, cost=plan.schedule().json())
    return plan.json(), order.json()


def plans_of(rank, model, inputs, target, loss, schedules):
    """What rank 0 has measured and planned, on all ranks."""
    import torch.distributed as dist
    from torch.utils import _pytree as tree
    import weir
    plans = None
    if rank == 0:
        sample, target = tree.tree_map(lambda tensor: tensor[:SAMPLES], (inputs, target)) if target is not None else (
            tree.tree_map(lambda tensor: tensor[:SAMPLES], inputs), None)
        profile = weir.profile(model, sample, loss_fn=loss, target=target, repeats=3)
        plans = [plan_for(profile, schedule) for schedule in schedules]
    everyone = [plans]
    dist.broadcast_object_list(everyone)
    return everyone[0]


def verify_model(rank, name, schedules):
    """Of each schedule what verify says, and the largest relative difference; None where it was refused."""
    import weir
    model, inputs, target, loss = make(name)
    said = []
    for plan, order in plans_of(rank, model, inputs, target, loss, schedules):
        try:
            found = weir.torch.verify(model, plan, inputs, target, loss, schedule=order)
            worst = max(kind.relative for kind in (found.losses, found.gradients, found.weights, found.buffers))
            said.append((str(found), worst if found.within(TOLERANCE) else max(worst, 1.0)))
        except weir.WeirError as error:
            said.append((f"refused: {error}", None))
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    from ranks import on_ranks
    known = makers()
    unknown = set(given.models) - set(known)
    if unknown:
        parser.error(f"there is no model {', '.join(sorted(unknown))}, but {', '.join(known)}")
    schedules, bad = given.schedules.split(","), 0
    if given.table:
        print("|".join(["", " model ", *(f" {schedule} " for schedule in schedules), ""]))
        print("|---" * (len(schedules) + 1) + "|", flush=True)
    for name in given.models or known:
        try:
            make(name)
        except ImportError as missing:
            print(f"{name:14} left out: {missing.name} is not installed", flush=True)
            continue
        try:
            found = on_ranks(RANKS, verify_model, name, schedules)[0]
        except AssertionError as failure:
            found = [(f"failed: {failure}", 1.0)] * len(schedules)
        bad += sum(worst is not None and worst > TOLERANCE for _, worst in found)
        if given.table:
            cells = ["refused" if worst is None else "to the bit" if worst == 0 else f"{worst:.0e}" if worst <= TOLERANCE
                     else f"**{said[:60]}**" for said, worst in found]
            print("| " + " | ".join([name, *cells]) + " |", flush=True)
            continue
        for schedule, (said, worst) in zip(schedules, found):
            far = worst is not None and worst > TOLERANCE
            print(f"{name:14} {schedule:12} {'TOO FAR: ' if far else ''}{said}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
