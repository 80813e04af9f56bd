#!/usr/bin/env python3
"""Weir's plans against the cuts of PyTorch's auto_partition (pull request 179212) and against even ones, simulated.

    compare_partitions.py [--models mlp,gpt,...] [--profiles FILE,...] [--no-graphs] [--ranks 2,4,8] [--micro-batches 8]
                          [--schedules 1f1b,interleaved,interleaved-zb] [--cluster "80GiB, 12GB/s 5us"]

Profiles are PipeDream's, where they lie beside the project, those of FILEs, and the models of compare_plans.py,
measured here by weir.profile, where PyTorch is installed. Each is cut in four ways: by weir.partition, by the dynamic
program of auto_partition, by that and its search (auto_partition.py says what it does), and into stages of as many
layers. All are plans of the same schedule, and `weir simulate` says what an iteration takes. A row has each peer's time
in parts of ours: above 1 it is slower.

Exits with 1 when a plan of ours is slower than a peer's. A row that a model is too short for is left out.
"""

import argparse
import glob
import os
import statistics
import subprocess
import sys
import tempfile

import weir
from auto_partition import auto_partition, even_split, iteration_ns

HERE = os.path.dirname(os.path.abspath(__file__))
PIPEDREAM = os.path.join(HERE, "..", "..", "..", "shared", "data", "partition", "pipedream")


def of_pipedream():
    """(name, profile) of each of its graphs."""
    with tempfile.TemporaryDirectory() as folder:
        for graph in sorted(glob.glob(os.path.join(PIPEDREAM, "*.graph.txt"))):
            profile = os.path.join(folder, "profile.json")
            subprocess.run(["weir", "import", "pipedream", graph, "-o", profile], check=True, stdout=subprocess.DEVNULL)
            yield os.path.basename(graph).partition(".")[0], weir.Profile.load(profile)


def of_pytorch(names, micro_batches):
    """(name, profile) of the models of compare_plans.py, measured on this thread."""
    try:
        import torch
    except ImportError:
        print("models of PyTorch left out: it is not installed")
        return
    from compare_plans import MODELS, loss_of
    torch.set_num_threads(1)
    for name in names or MODELS:
        try:
            torch.manual_seed(1)
            model, inputs, target = MODELS[name](micro_batches)
        except ImportError as missing:
            print(f"{name:14} left out: {missing}")
            continue
        rows = len(inputs) // micro_batches
        yield f"{name} (PyTorch)", weir.profile(model, inputs[:rows], loss_fn=loss_of, target=target[:rows], repeats=5)


def compare(name, profile, schedule, ranks, given):
    """Prints a row; returns each peer's time in parts of ours, or None where the model is too short."""
    cluster = f"{ranks} devices, {given.cluster}"
    request = {"schedule": schedule, "micro_batches": given.micro_batches, "ranks": ranks}
    try:
        ours = weir.partition(profile, cluster, **request)
    except weir.WeirError:
        return None
    stages = len(ours.document["stages"])
    searched, balanced = auto_partition(profile, cluster, stages, **request)
    even = even_split(profile, cluster, stages, **request)
    ours_ns = iteration_ns(ours)
    ratios = [None if plan is None else iteration_ns(plan) / ours_ns for plan in (searched, balanced, even)]
    print(f"{name:20} {schedule:15} {ranks:2} ranks  {stages:2} stages  ours {ours_ns / 1e6:10.3f} ms   "
          + "   ".join(f"{what} {'-' if ratio is None else f'{ratio:.3f}':>6}"
                       for what, ratio in zip(("auto_partition", "its program alone", "even"), ratios)), flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="none: leave PyTorch's out")
    parser.add_argument("--profiles", default="")
    parser.add_argument("--no-graphs", dest="graphs", action="store_false", help="leave PipeDream's profiles out")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--schedules", default="1f1b,interleaved,interleaved-zb")
    parser.add_argument("--cluster", default="80GiB, 12GB/s 5us")
    given = parser.parse_args()
    profiles = [(path, weir.Profile.load(path)) for path in filter(None, given.profiles.split(","))]
    profiles += of_pipedream() if given.graphs else []
    if given.models != "none":
        profiles += of_pytorch(list(filter(None, given.models.split(","))), given.micro_batches)
    rows = []
    for name, profile in profiles:
        for schedule in given.schedules.split(","):
            for ranks in map(int, given.ranks.split(",")):
                row = compare(name, profile, schedule, ranks, given)
                rows += [] if row is None else [row]
    slower = 0
    for place, what in enumerate(("auto_partition", "its program alone", "even")):
        ratios = [row[place] for row in rows if row[place] is not None]
        slower += sum(ratio < 1 for ratio in ratios)
        if ratios:
            print(f"{what}: {len(ratios)} cuts, median {statistics.median(ratios):.3f} of ours, least {min(ratios):.3f}, "
                  f"most {max(ratios):.3f}; {sum(ratio == 1 for ratio in ratios)} as quick as ours")
    print("no plan is slower than a peer's" if not slower else f"{slower} plans are slower than a peer's")
    return 1 if slower or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
