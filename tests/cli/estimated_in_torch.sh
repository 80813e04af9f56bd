# Fine-tuning, and encoders with decoders: what layers keep and multiply beside PyTorch's own counters (saved tensor
# hooks, FlopCounterMode), on small layers of the same algorithm. Norms, rotary positions and activations are one kernel each, as Transformer Engine has them.
python=${WEIR_PYTHON:-python3}
"$python" -c 'import sys; from importlib.util import find_spec; sys.exit(not find_spec("torch"))' ||
    { echo '# skip: no Python package torch'; exit 77; }
cat >config.json <<'JSON'
{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4,
 "intermediate_size": 640, "vocab_size": 1024, "max_position_embeddings": 8192}
JSON
cat >t5.json <<'JSON'
{"model_type": "t5", "num_layers": 2, "d_model": 256, "d_kv": 32, "num_heads": 8, "d_ff": 640, "vocab_size": 1024,
 "dropout_rate": 0}
JSON
cat >counted.py <<'PYTHON'
import json
import subprocess
import sys
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention, silu
from torch.utils.flop_counter import FlopCounterMode

TOKENS, WIDTH, HEADS, KV, SIZE, INNER = 512, 256, 8, 4, 32, 640


class Again(torch.autograd.Function):
    """Keeps what it reads, and nothing within."""

    @staticmethod
    def forward(ctx, function, *tensors):
        ctx.function = function
        ctx.save_for_backward(*tensors)
        return function(*tensors)

    @staticmethod
    def backward(ctx, gradient):
        tensors = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            made = ctx.function(*tensors)
        return None, *torch.autograd.grad(made, tensors, gradient)


class Turned(torch.autograd.Function):
    """Rotary positions: linear, so nothing is kept."""

    @staticmethod
    def forward(ctx, tensor):
        return -tensor

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def parameter(*size, trained=True):
    return torch.nn.Parameter(torch.randn(*size, dtype=torch.bfloat16) / 16, requires_grad=trained)


class Linear:
    def __init__(self, into, out, trained, rank):
        self.weight = parameter(into, out, trained=trained)
        self.a, self.b = (parameter(into, rank), parameter(rank, out)) if rank else (None, None)
        self.parameters = [one for one in (self.weight, self.a, self.b) if one is not None]

    def __call__(self, x):
        y = x @ self.weight
        return y if self.a is None else y + (x @ self.a @ self.b) * 2


def norm(x):
    return Again.apply(lambda x: x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype), x)


class Attention:
    def __init__(self, trained, rank, kv=KV):
        sizes = ((WIDTH, HEADS * SIZE), (WIDTH, kv * SIZE), (WIDTH, kv * SIZE), (HEADS * SIZE, WIDTH))
        self.linears = [Linear(*size, trained, rank) for size in sizes]

    def __call__(self, x, other=None):
        x = norm(x)
        query, key, value = (linear(x if i == 0 or other is None else other)
                             for i, linear in enumerate(self.linears[:3]))
        query, key, value = (one.view(1, TOKENS, -1, SIZE).transpose(1, 2)
                             for one in (Turned.apply(query), Turned.apply(key), value))
        # Without copies of keys and values for the heads that share them.
        out = Grouped.apply(query, key, value)
        return self.linears[3](out.transpose(1, 2).reshape(TOKENS, -1))


class Grouped(torch.autograd.Function):
    """Attention in one kernel: keeps what it reads, its output, and 4 bytes for each row of scores."""

    @staticmethod
    def forward(ctx, query, key, value):
        out = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        rows = torch.zeros(query.shape[:3])
        out = out.transpose(1, 2).contiguous().transpose(1, 2)
        ctx.save_for_backward(query, key, value, out, rows)
        return out

    @staticmethod
    def backward(ctx, gradient):
        return tuple(torch.zeros_like(tensor) for tensor in ctx.saved_tensors[:3])


class Mlp:
    def __init__(self, trained, rank):
        self.linears = [Linear(*size, trained, rank) for size in ((WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH))]

    def __call__(self, x):
        x = norm(x)
        gate, up = self.linears[0](x), self.linears[1](x)
        return self.linears[2](Again.apply(lambda gate, up: silu(gate) * up, gate, up))


class Decoder:
    """Attention to its own tokens, a sum, and attention to the encoder's output."""

    def __init__(self):
        self.own, self.cross = Attention(True, 0, HEADS), Attention(True, 0, HEADS)
        self.linears = self.own.linears + self.cross.linears
        self.encoded = torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16, requires_grad=True)

    def __call__(self, x):
        x = x + self.own(x)
        return self.cross(x, self.encoded)


def counted(layer):
    """Bytes kept beside the inputs, and operations of products forward and backward."""
    tokens = torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    parameters = [one for linear in layer.linears for one in linear.parameters]
    inputs = [tokens, getattr(layer, 'encoded', tokens)]
    own = {tensor.untyped_storage().data_ptr() for tensor in [*inputs, *parameters]}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def products(counter):
        return sum(count for name, count in counter.get_flop_counts()['Global'].items() if 'mm' in str(name))

    with FlopCounterMode(display=False) as forward, saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(tokens)
    with FlopCounterMode(display=False) as backward:
        output.backward(torch.ones_like(output))
    trained = sum(one.numel() for one in parameters if one.requires_grad)
    return sum(kept.values()), products(forward), products(backward), trained


def estimated(*options, config='config.json'):
    said = subprocess.run(['weir', 'estimate', config, '--device', 'h100-sxm', '--json', *options],
                          check=True, capture_output=True, text=True).stdout
    return {layer['kind']: layer for layer in json.loads(said)['layers']}


def holds(name, options, attention, mlp):
    layers = estimated('--sequence', str(TOKENS), *options)
    scores = 2 * TOKENS * TOKENS // 2 * HEADS * 2 * SIZE
    for kind, made, norm_and_scores in (('attention', attention, scores), ('mlp', mlp, 0)):
        kept, forward, backward, trained = counted(made)
        layer = layers[kind]
        found = (layer['saved_bytes'], layer['flops'] - norm_and_scores, layer['backward_flops'] - 2 * norm_and_scores)
        own = layer['parameters'] - layer['frozen_parameters'] - (0 if layer['frozen_parameters'] else WIDTH)  # the norm
        same = found == (kept, forward, backward) and own == trained
        print(name, kind, 'is as counted' if same else f'{found}, {own}, not {(kept, forward, backward)}, {trained}')


torch.manual_seed(1)
holds('lora', ['--lora', '8'], Attention(False, 8), Mlp(False, 8))
holds('lora of attention', ['--lora', '8:attention'], Attention(False, 8), Mlp(False, 0))
holds('attention frozen', ['--frozen', 'attention'], Attention(False, 0), Mlp(True, 0))
holds('mlp frozen', ['--frozen', 'mlp,embedding'], Attention(True, 0), Mlp(False, 0))

# An encoder sees all tokens, a decoder half of its own and all of the encoder's. What is passed on is kept in front.
layers = estimated('--sequence', str(TOKENS), '--lengths', f'{TOKENS}:100%', config='t5.json')
for kind, made, passed, scores in (('encoder', Attention(True, 0, HEADS), 0, 2), ('attention', Decoder(), 1, 3)):
    kept, forward, backward, trained = counted(made)
    layer, all_scores = layers[kind], scores * TOKENS * TOKENS * HEADS * 2 * SIZE
    found = (layer['saved_bytes'] + passed * 2 * TOKENS * WIDTH, layer['flops'] - all_scores,
             layer['backward_flops'] - 2 * all_scores, layer['parameters'] - (1 + passed) * WIDTH)
    print('t5', kind, 'is as counted' if found == (kept, forward, backward, trained) else
          f'{found}, not {(kept, forward, backward, trained)}')

# Packed sequences: 3 of 128 tokens, 1 of 256 and 1 of 384 in 1,024, each by itself.
lengths = [128] * 3 + [256, 384]
packed = estimated('--sequence', '1024', '--lengths', '128:60%,256:20%,384:20%')['attention']
whole = estimated('--sequence', '1024', '--lengths', '1024:100%')['attention']
flops = []
for each in (lengths, [1024]):
    with FlopCounterMode(display=False) as counter:
        for length in each:
            query = torch.randn(1, HEADS, length, SIZE, requires_grad=True)
            scores = query @ query.transpose(2, 3)  # of all pairs, of which a decoder sees half
            scores @ query
    flops.append(counter.get_total_flops() // 2)
print('packed', 'is as counted' if whole['flops'] - packed['flops'] == flops[1] - flops[0] else (whole, packed, flops))
PYTHON
"$python" counted.py; echo "exit $?"
