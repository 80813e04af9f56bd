"""Guesses a text's next byte: torchrun --nproc-per-node 2 examples/train_torch.py TEXT [STEPS [SCHEDULE]]"""
import sys

import torch
import torch.distributed as dist
from torch import nn

import weir

text = torch.frombuffer(bytearray(open(sys.argv[1], "rb").read()), dtype=torch.uint8).long()
steps, schedule = (sys.argv[2:] + ["50", "1f1b"][len(sys.argv) - 2:])[:2]
window, batch, micro_batches = 32, 256, 8
loss_fn = nn.functional.cross_entropy
torch.set_num_threads(1)
torch.manual_seed(0)  # every rank makes the same model and batches, and keeps its stages of the model
blocks = [nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(8)]
model = nn.Sequential(nn.Embedding(256, 16), nn.Flatten(), *blocks, nn.Linear(512, 256))


def some_text():
    starts = torch.randint(len(text) - window, (batch,))
    return text[starts[:, None] + torch.arange(window)], text[starts + window]


dist.init_process_group("gloo")
cluster, plan = weir.torch.links(), [None]
inputs, target = (part[:batch // micro_batches] for part in some_text())
if dist.get_rank() == 0:
    profile = weir.profile(model, inputs, loss_fn=loss_fn, target=target)
    plan = [weir.partition(profile, cluster, schedule=schedule, micro_batches=micro_batches).json()]
dist.broadcast_object_list(plan)
pipeline = weir.torch.pipeline(model, plan[0], inputs, loss_fn=loss_fn)
optimizer = torch.optim.AdamW(pipeline.parameters(), lr=1e-3)
for step in range(int(steps)):
    inputs, target = some_text()
    losses = pipeline.step(inputs, target=target)
    optimizer.step()
    optimizer.zero_grad()
    if losses and (step % 10 == 0 or step == int(steps) - 1):
        print(f"step {step}: {torch.stack(losses).mean() / 0.6931:.3f} bits per byte", flush=True)
