"""Why a run took longer than planned, and a plan of what it took: torchrun --nproc-per-node 2 compare_torch.py"""
import torch
import torch.distributed as dist
from torch import nn

import weir

micro_batches, width = 4, 512
torch.set_num_threads(1)
torch.manual_seed(0)  # every rank makes the same model and batch
model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(6)))
batch, loss_fn = torch.randn(256, width), nn.functional.mse_loss
sample = batch[:len(batch) // micro_batches]

dist.init_process_group("gloo")
cluster, made, rank = weir.torch.links(), [None], dist.get_rank()
if rank == 0:
    profile = weir.profile(model, sample, loss_fn=loss_fn, target=sample)
    plan = weir.partition(profile, cluster, schedule="1f1b", micro_batches=micro_batches)
    made = [plan.json()]
dist.broadcast_object_list(made)
pipeline = weir.torch.pipeline(model, made[0], sample, loss_fn=loss_fn)

with torch.profiler.profile() as seen:  # on every rank; the last iteration is compared
    for _ in range(3):
        pipeline.step(batch, target=batch)
seen.export_chrome_trace(f"rank{rank}.json.gz")
dist.barrier()  # until every rank has written its file

if rank == 0:
    traces = [f"rank{number}.json.gz" for number in range(dist.get_world_size())]
    print(weir.compare(plan, traces))
    refined = profile.refine(plan, traces)
    print("planned anew:", weir.partition(refined, cluster, schedule="1f1b", micro_batches=micro_batches))
