"""Small models for tests, each with a difficulty of its own."""

import torch
from torch import nn


def chain(layers: int, width: int = 16) -> nn.Sequential:
    """Layers that follow each other, each with weights."""
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)))


class Skips(nn.Module):
    """The first layer's output and the input itself are read at the end as well; two tensors leave a block."""

    def __init__(self, width: int = 16):
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Linear(width, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.last = nn.Linear(width, width)

    def forward(self, x):
        early = self.first(x)
        now = early
        for layer in self.layers:
            now = torch.relu(layer(now)) + now
        return self.last(now + early * x)


class Tied(nn.Module):
    """Ids in, a dictionary out; the last layer has the first one's weights, and ids are read again late."""

    def __init__(self, words: int = 11, width: int = 16):
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.late = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids, scale):
        now = self.embedding(ids)
        for layer in self.layers:
            now = torch.tanh(layer(now)) * scale
        return {"logits": self.head(now + self.late(ids)), "hidden": now}


class Shared(nn.Module):
    """The first layer runs once more at the end."""

    def __init__(self, width: int = 16):
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        for layer in [*self.layers, self.layers[0]]:
            x = torch.tanh(layer(x))
        return x


class Normed(nn.Module):
    """BatchNorm, whose running means count micro-batches, and activations in place."""

    def __init__(self, channels: int = 4):
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
            for _ in range(6))
        self.head = nn.Linear(channels, 3)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))
