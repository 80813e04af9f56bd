#!/usr/bin/env python3
"""Seven models by four schedules in PyTorch's runtime, held against the whole model on one process.

    verify_models.py [MODEL ...] [--schedules 1f1b,interleaved,zb-v,search]

Each model is profiled once, planned for two devices, and run by weir.torch on two processes over gloo, one compute
thread each; `search` is the order that weir.search() finds for the stages of a plan by zb-h1, from what they cost. A
line says for each whether losses, gradients, weights behind an optimizer's step and buffers equal the whole model's to
the bit, or how large the largest relative difference is, and whose. Words that two layers share are added up in another
order, and differ by some 1e-7.

Exits with 1 when one is above 1e-5. Needs the package weir, PyTorch, and for their models torchvision and transformers;
leaves out a model that cannot be made, and says so. The models are those of python/tests/torch/models.py.
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


def make(name):
    """The model, inputs and targets of an iteration. Nothing is dropped, since two runs would drop other numbers."""
    import models
    import torch
    torch.manual_seed(0)
    model, inputs = models.SEVEN[name](batch=SAMPLES * MICRO_BATCHES)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    was_training = model.training
    with torch.no_grad():
        output = model.eval()(**inputs) if isinstance(inputs, dict) else model.eval()(inputs)
    model.train(was_training)
    logits = getattr(output, "logits", output)
    return model, inputs, torch.randint(logits.shape[-1], logits.shape[:-1])


def plan_for(profile, schedule):
    """A plan's document, and that of its order if it is a searched one."""
    import weir
    if schedule != "search":
        return weir.partition(profile, CLUSTER, schedule=schedule, micro_batches=MICRO_BATCHES).json(), None
    plan = weir.partition(profile, CLUSTER, schedule="zb-h1", micro_batches=MICRO_BATCHES)
    order = weir.search(ranks=RANKS, micro_batches=MICRO_BATCHES, cost=plan.schedule().json())
    return plan.json(), order.json()


def plans_of(rank, model, inputs, target, schedules):
    """What rank 0 has measured and planned, on all ranks."""
    import torch.distributed as dist
    from torch.utils import _pytree as tree
    import weir
    plans = None
    if rank == 0:
        sample, target = tree.tree_map(lambda tensor: tensor[:SAMPLES], (inputs, target))
        profile = weir.profile(model, sample, loss_fn=loss_of, target=target, repeats=3)
        plans = [plan_for(profile, schedule) for schedule in schedules]
    everyone = [plans]
    dist.broadcast_object_list(everyone)
    return everyone[0]


def verify_model(rank, name, schedules):
    """Of each schedule what verify says, and whether that is good."""
    import weir
    model, inputs, target = make(name)
    said = []
    for plan, order in plans_of(rank, model, inputs, target, schedules):
        found = weir.torch.verify(model, plan, inputs, target, loss_of, schedule=order)
        said.append((str(found), found.within(TOLERANCE)))
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    given = parser.parse_args()
    import models
    from ranks import on_ranks
    unknown = set(given.models) - set(models.SEVEN)
    if unknown:
        parser.error(f"there is no model {', '.join(sorted(unknown))}, but {', '.join(models.SEVEN)}")
    schedules, bad = given.schedules.split(","), 0
    for name in given.models or models.SEVEN:
        try:
            make(name)
        except ImportError as missing:
            print(f"{name:9} left out: {missing.name} is not installed", flush=True)
            continue
        for schedule, (said, good) in zip(schedules, on_ranks(RANKS, verify_model, name, schedules)[0]):
            bad += not good
            print(f"{name:9} {schedule:12} {'' if good else 'TOO FAR: '}{said}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
