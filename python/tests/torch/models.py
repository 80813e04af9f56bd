"""Models that the tests take apart: small sizes of what people train. Each maker returns (model, sample)."""

import torch
from torch import nn


def mlp(width=64, layers=6, batch=4):
    blocks = [nn.Flatten()]
    for _ in range(layers):
        blocks += [nn.Linear(width, width), nn.ReLU(inplace=True)]
    return nn.Sequential(*blocks, nn.Linear(width, 10)), torch.randn(batch, 4, width // 4)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Learned positions, tied words; 10.8 M parameters with width=384, blocks=6 and 256 words."""

    def __init__(self, words=256, length=32, width=64, blocks=3, heads=4):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(words=256, length=32, batch=2, **sizes):
    return GPT(words, length, **sizes), torch.randint(0, words, (batch, length))


def vgg16(batch=2, side=32, classes=10, hidden=64):
    """With fewer numbers in the classifier, since the original's 120 million say nothing more."""
    from torchvision.models import vgg16 as make
    with torch.device("meta"):
        model = make(num_classes=classes)
    model.classifier[0] = nn.Linear(512 * 7 * 7, hidden, device="meta")
    model.classifier[3] = nn.Linear(hidden, hidden, device="meta")
    model.classifier[6] = nn.Linear(hidden, classes, device="meta")
    model = model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return model, torch.randn(batch, 3, side, side)


def resnet50(batch=2, side=64, classes=10):
    from torchvision.models import resnet50 as make
    return make(num_classes=classes), torch.randn(batch, 3, side, side)


def vit(batch=2, side=32, classes=10, layers=3, width=64):
    from torchvision.models import VisionTransformer
    model = VisionTransformer(image_size=side, patch_size=8, num_layers=layers, num_heads=4, hidden_dim=width,
                              mlp_dim=4 * width, num_classes=classes, dropout=0.1)
    return model, torch.randn(batch, 3, side, side)


def gpt2(batch=2, length=16, layers=3, width=64, words=128):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=4, vocab_size=words, n_positions=length,
                        bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config).train(), {"input_ids": torch.randint(0, words, (batch, length))}


def llama(batch=2, length=16, layers=3, width=64, words=128):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=2 * width,
                         num_attention_heads=4, num_key_value_heads=2, vocab_size=words, max_position_embeddings=length)
    return LlamaForCausalLM(config).train(), {"input_ids": torch.randint(0, words, (batch, length))}


SEVEN = {"mlp": mlp, "vgg16": vgg16, "resnet50": resnet50, "vit": vit, "gpt": gpt, "gpt2": gpt2, "llama": llama}
