"""Estimates of recurrent layers against PyTorch's own counters, on small layers of the same algorithms.

A layer here keeps what the kernels keep, and computes the rest again in its backward. Operations are counted by
FlopCounterMode, and bytes by hooks of saved tensors. The selective scan of Mamba 1 has no products; its operations are
counted by hand.
"""

import unittest

try:
    import torch
    from torch.autograd.graph import saved_tensors_hooks
    from torch.utils.flop_counter import FlopCounterMode
except ImportError:
    torch = None
import weir

TOKENS = 256
COMMON = {'num_hidden_layers': 1, 'hidden_size': 128, 'num_attention_heads': 4, 'num_key_value_heads': 4,
          'intermediate_size': 256, 'vocab_size': 128}
MAMBA2 = {**COMMON, 'model_type': 'nemotron_h', 'hybrid_override_pattern': 'M', 'mamba_num_heads': 8,
          'mamba_head_dim': 32, 'n_groups': 2, 'ssm_state_size': 16, 'conv_kernel': 4, 'chunk_size': 64}
DELTA = {**COMMON, 'model_type': 'qwen3_next', 'layer_types': ['linear_attention'], 'linear_num_value_heads': 8,
         'linear_num_key_heads': 4, 'linear_key_head_dim': 16, 'linear_value_head_dim': 32,
         'linear_conv_kernel_dim': 4, 'num_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 64,
         'shared_expert_intermediate_size': 64}
LIGHTNING = {**COMMON, 'model_type': 'minimax', 'layer_types': ['linear_attention'], 'block_size': 64,
             'num_local_experts': 4, 'num_experts_per_tok': 2}
MAMBA = {**COMMON, 'model_type': 'jamba', 'mamba_expand': 2, 'mamba_d_state': 16, 'mamba_d_conv': 4,
         'mamba_dt_rank': 8, 'num_experts': 1, 'num_experts_per_tok': 1, 'attn_layer_offset': 4}
CHANNELS = {**COMMON, 'model_type': 'kimi_linear', 'layer_types': ['linear_attention'], 'num_experts': 4,
            'num_experts_per_token': 2, 'moe_intermediate_size': 64, 'linear_attn_config': {
                'num_heads': 4, 'head_dim': 32, 'short_conv_kernel_size': 4}}
CONVOLUTION = {**COMMON, 'model_type': 'lfm2', 'layer_types': ['conv'], 'conv_L_cache': 3}


class Again(torch.autograd.Function if torch else object):
    """A function that keeps what it reads, and is computed again in the backward."""

    @staticmethod
    def forward(ctx, function, *tensors):
        ctx.function = function
        ctx.save_for_backward(*tensors)
        return function(*tensors)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            tensors = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in ctx.saved_tensors]
            result = ctx.function(*tensors)
        return (None, *torch.autograd.grad(result, tensors, gradient, allow_unused=True))


def again(function, *tensors):
    return Again.apply(function, *tensors)


def chunks(tensor, size):
    """[tokens, ..] as [chunks, size, ..]."""
    return tensor.unflatten(0, (-1, size))


def norm(tensor):
    return torch.nn.functional.rms_norm(tensor, tensor.shape[-1:])


def gated_norm(output, gate):
    return norm(output * torch.nn.functional.silu(gate))


def convolved(weight, *columns):
    def convolve(tensor):
        kernel = weight.shape[-1]
        padded = torch.nn.functional.pad(tensor[:, slice(*columns)].t(), (kernel - 1, 0))
        return torch.nn.functional.silu(torch.nn.functional.conv1d(padded, weight, groups=weight.shape[0])).t()
    return convolve


class Layer:
    """A norm, a product, a scan, and a product."""

    operations = 0  # besides those of products

    def __init__(self, width, inner, hidden=128):
        make = lambda *shape: torch.randn(*shape, dtype=torch.bfloat16, requires_grad=True)
        self.first, self.last = make(width, hidden), make(hidden, inner)
        self.parameters = [self.first, self.last]
        self.width, self.inner = width, inner

    def convolution(self, channels, kernel=4):
        weight = torch.randn(channels, 1, kernel, dtype=torch.bfloat16, requires_grad=True)
        self.parameters.append(weight)
        return weight

    def __call__(self, tokens):
        made = torch.nn.functional.linear(again(norm, tokens), self.first)
        return torch.nn.functional.linear(self.scan(made), self.last)


class Mamba2(Layer):
    """The minimal form of state-space duality (Dao and Gu, 2405.21060, listing 1)."""

    heads, size, groups, state, chunk = 8, 32, 2, 16, 64

    def __init__(self):
        inner, shared = self.heads * self.size, self.groups * self.state
        super().__init__(2 * inner + 2 * shared + self.heads, inner)
        self.weight = self.convolution(inner + 2 * shared)

    def chunked(self, made, weight):
        inner, shared = self.inner, self.groups * self.state
        mixed = convolved(weight, inner, 2 * inner + 2 * shared)(made)
        step = torch.nn.functional.softplus(made[:, -self.heads:].float())
        decay = chunks(-step, self.chunk).permute(0, 2, 1).cumsum(-1)                       # [chunks, heads, chunk]
        values = chunks((mixed[:, :inner].unflatten(1, (self.heads, -1)) * step[..., None]).to(made.dtype), self.chunk)
        written, read = (chunks(part.unflatten(1, (self.groups, -1)), self.chunk)
                         for part in mixed[:, inner:].split(shared, 1))
        values, each = values.transpose(1, 2), self.heads // self.groups
        scores = torch.matmul(read.transpose(1, 2), written.permute(0, 2, 3, 1))            # of each group
        within = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
        written, read = (part.transpose(1, 2).repeat_interleave(each, 1) for part in (written, read))
        output = torch.matmul((scores.repeat_interleave(each, 1) * within).to(made.dtype), values)
        left = written * (decay[..., -1:] - decay).exp()[..., None].to(made.dtype)
        added = torch.matmul(left.transpose(-1, -2), values)  # [chunks, heads, state, size]
        states, state = [], torch.zeros_like(added[0])
        for i in range(len(added)):
            states.append(state)
            state = state * decay[i, :, -1, None, None].exp().to(made.dtype) + added[i]
        output = output + torch.matmul(read * decay.exp()[..., None].to(made.dtype), torch.stack(states))
        return output.transpose(1, 2).reshape(len(made), inner)

    def scan(self, made):
        output = again(self.chunked, made, self.weight)
        return again(lambda output, made: gated_norm(output, made[:, :self.inner]), output, made)


class Delta(Layer):
    """The gated delta rule in chunks (Yang et al., 2412.06464), as flash-linear-attention keeps and computes it."""

    heads, size, groups, state, chunk = 8, 32, 4, 16, 64

    def __init__(self):
        inner, shared = self.heads * self.size, self.groups * self.state
        super().__init__(2 * inner + 2 * shared + 2 * self.heads, inner)
        self.weight = self.convolution(inner + 2 * shared)

    def parts(self, mixed, made):
        shared = self.groups * self.state
        queries, keys = (chunks(torch.nn.functional.normalize(part.unflatten(1, (self.groups, -1)), dim=-1)
                                .repeat_interleave(self.heads // self.groups, 1), self.chunk).transpose(1, 2)
                         for part in mixed[:, :2 * shared].split(shared, 1))
        values = chunks(mixed[:, 2 * shared:].unflatten(1, (self.heads, -1)), self.chunk).transpose(1, 2)
        rates, decays = made[:, -2 * self.heads:].float().split(self.heads, 1)
        rates = chunks(rates.sigmoid(), self.chunk).transpose(1, 2).to(made.dtype)
        decay = chunks(-torch.nn.functional.softplus(decays), self.chunk).transpose(1, 2).cumsum(-1)
        return queries, keys, values, rates, decay

    def inverse(self, mixed, made):
        _, keys, _, rates, decay = self.parts(mixed, made)
        scores = torch.matmul(keys * rates[..., None], keys.transpose(-1, -2))
        below = (scores * (decay[..., :, None] - decay[..., None, :]).tril().exp()).tril(-1)
        one = torch.eye(self.chunk).expand_as(below)
        return torch.linalg.solve_triangular(below.float() + one, one, upper=False).to(made.dtype)

    def chunked(self, mixed, inverse, made):
        queries, keys, values, rates, decay = self.parts(mixed, made)
        gone = decay.exp()[..., None].to(made.dtype)
        removed = torch.matmul(inverse, keys * rates[..., None] * gone)
        new = torch.matmul(inverse, values * rates[..., None])
        scores = torch.matmul(queries, keys.transpose(-1, -2))
        scores = (scores * (decay[..., :, None] - decay[..., None, :]).tril().exp()).tril().to(made.dtype)
        state, outputs = torch.zeros(self.heads, self.state, self.size, dtype=made.dtype), []
        for i in range(len(queries)):
            fresh = new[i] - torch.matmul(removed[i], state)
            outputs.append(torch.matmul(queries[i] * gone[i], state) + torch.matmul(scores[i], fresh))
            left = keys[i] * (decay[i, :, -1:] - decay[i]).exp()[..., None].to(made.dtype)
            state = state * gone[i, :, -1:] + torch.matmul(left.transpose(-1, -2), fresh)
        return torch.stack(outputs).transpose(1, 2).reshape(len(made), self.inner)

    def scan(self, made):
        mixed = again(lambda made, weight: convolved(weight, 0, weight.shape[0])(made), made, self.weight)
        output = again(self.chunked, mixed, again(self.inverse, mixed, made), made)
        return again(lambda output, made: gated_norm(output, made[:, -self.inner - 16:-16]), output, made)


class Channels(Layer):
    """The gated delta rule with a decay for each channel, which a product of low rank makes (Kimi Linear, 2510.26692)."""

    heads, size, chunk = 4, 32, 64

    def __init__(self):
        inner = self.heads * self.size
        super().__init__(3 * inner + self.heads + 2 * self.size, inner)
        self.weight = self.convolution(3 * inner)
        make = lambda: torch.randn(inner, self.size, dtype=torch.bfloat16, requires_grad=True)
        self.decays, self.gates = make(), make()
        self.parameters += [self.decays, self.gates]

    def by_heads(self, tensor):
        return chunks(tensor.unflatten(1, (self.heads, -1)), self.chunk).transpose(1, 2)

    def parts(self, mixed, decay):
        queries, keys, values = (self.by_heads(part) for part in mixed.split(self.inner, 1))
        gone = self.by_heads(decay).cumsum(-2)
        queries, keys = (torch.nn.functional.normalize(part, dim=-1) for part in (queries, keys))
        return queries, keys, values, gone.exp().to(mixed.dtype), (-gone).exp().to(mixed.dtype)

    def rates(self, made):
        return self.by_heads(made[:, 3 * self.inner:3 * self.inner + self.heads].sigmoid())

    def inverse(self, mixed, decay, made):
        _, keys, _, gone, back = self.parts(mixed, decay)
        below = torch.matmul(keys * self.rates(made) * gone, (keys * back).transpose(-1, -2)).tril(-1)
        one = torch.eye(self.chunk).expand_as(below)
        return torch.linalg.solve_triangular(below.float() + one, one, upper=False).to(made.dtype)

    def scores(self, mixed, decay):
        queries, keys, _, gone, back = self.parts(mixed, decay)
        return torch.matmul(queries * gone, (keys * back).transpose(-1, -2)).tril()

    def chunked(self, mixed, inverse, scores, decay, made):
        queries, keys, values, gone, back = self.parts(mixed, decay)
        rates = self.rates(made)
        removed, new = torch.matmul(inverse, keys * rates * gone), torch.matmul(inverse, values * rates)
        state, outputs = torch.zeros(self.heads, self.size, self.size, dtype=made.dtype), []
        for i in range(len(queries)):
            fresh = new[i] - torch.matmul(removed[i], state)
            outputs.append(torch.matmul(queries[i] * gone[i], state) + torch.matmul(scores[i], fresh))
            left = keys[i] * back[i] * gone[i, :, -1:]
            state = state * gone[i, :, -1:].transpose(-1, -2) + torch.matmul(left.transpose(-1, -2), fresh)
        return torch.stack(outputs).transpose(1, 2).reshape(len(made), self.inner)

    def scan(self, made):
        narrow, narrower = made[:, -2 * self.size:-self.size], made[:, -self.size:]
        mixed = again(lambda made, weight: convolved(weight, 0, weight.shape[0])(made), made, self.weight)
        decay = again(lambda made: -torch.nn.functional.softplus(made.float()) / 64,
                      torch.nn.functional.linear(narrow, self.decays))
        gate = torch.nn.functional.linear(narrower, self.gates)
        inverse, scores = again(self.inverse, mixed, decay, made), again(self.scores, mixed, decay)
        output = again(self.chunked, mixed, inverse, scores, decay, made)
        return again(lambda output, gate: norm(output) * gate.sigmoid(), output, gate)


class Convolution(Layer):
    """A short convolution between two gates, as LFM2 has it."""

    def __init__(self):
        super().__init__(3 * 128, 128)
        self.weight = self.convolution(128, 3)

    def convolve(self, gated, weight):
        kernel = weight.shape[-1]
        padded = torch.nn.functional.pad(gated.t(), (kernel - 1, 0))
        return torch.nn.functional.conv1d(padded, weight, groups=weight.shape[0]).t()

    def scan(self, made):
        gated = again(lambda made: made[:, :128] * made[:, 256:], made)
        output = again(self.convolve, gated, self.weight)
        return again(lambda output, made: output * made[:, 128:256], output, made)


class Lightning(Layer):
    """Linear attention with a decay of each head, in blocks (Qin et al., 2405.17381)."""

    heads, size, chunk = 4, 32, 64

    def __init__(self):
        super().__init__(4 * self.heads * self.size, self.heads * self.size)

    def chunked(self, mixed):
        queries, keys, values = (chunks(part.unflatten(1, (self.heads, -1)), self.chunk).transpose(1, 2)
                                 for part in mixed.split(self.inner, 1))
        place = torch.arange(self.chunk)
        slope = (torch.arange(self.heads) + 1.0)[:, None] / 64
        within = (-slope[..., None] * (place[:, None] - place)).exp().tril().to(mixed.dtype)
        output = torch.matmul(torch.matmul(queries, keys.transpose(-1, -2)) * within, values)
        since, left = ((-slope * many)[..., None].exp().to(mixed.dtype) for many in (place + 1, self.chunk - 1 - place))
        state, outputs = torch.zeros(self.heads, self.size, self.size, dtype=mixed.dtype), []
        for i in range(len(queries)):
            outputs.append(torch.matmul(queries[i] * since, state))
            state = state * since[:, -1:] + torch.matmul((keys[i] * left).transpose(-1, -2), values[i])
        return (output + torch.stack(outputs)).transpose(1, 2).reshape(len(mixed), self.inner)

    def scan(self, made):
        mixed = again(lambda made: torch.nn.functional.silu(made[:, :3 * self.inner]), made)
        normed = again(norm, again(self.chunked, mixed))
        return again(lambda normed, made: normed * made[:, -self.inner:].sigmoid(), normed, made)


class Mamba(Layer):
    """The selective scan, element by element (Gu and Dao, 2312.00752)."""

    rank, state = 8, 16

    def __init__(self):
        super().__init__(2 * 256, 256)
        make = lambda *shape: torch.randn(*shape, dtype=torch.bfloat16, requires_grad=True)
        self.weight, self.narrow, self.wide = self.convolution(256), make(8 + 2 * 16, 256), make(256, 8)
        self.parameters += [self.narrow, self.wide]

    def narrowed(self, mixed, narrow):
        return torch.nn.functional.linear(mixed, narrow)

    def step_by_step(self, mixed, made, wide):
        steps = torch.nn.functional.softplus(torch.nn.functional.linear(made[:, :self.rank], wide).float())
        written, read = made[:, self.rank:].float().split(self.state, 1)
        rates, state, outputs = -torch.arange(1.0, 1 + self.state), torch.zeros(self.inner, self.state), []
        for step, value, write, gain in zip(steps, mixed.float() * steps, written, read):
            decay = (step[:, None] * rates).exp()                    # a product, and its exponential
            state = decay * state + value[:, None] * write           # two products and a sum
            outputs.append((state * gain).sum(1))                    # a product and a sum
        self.operations = 7 * self.inner * self.state * len(outputs)
        return torch.stack(outputs).to(mixed.dtype)

    def scan(self, made):
        # Its convolution is computed wherever it is read.
        convolve = lambda made: convolved(self.weight.detach(), 0, self.inner)(made)
        mixed = convolve(made.detach())
        narrow = again(lambda made, weight: self.narrowed(mixed, weight), made, self.narrow)
        output = again(lambda made, narrow, wide: self.step_by_step(mixed, narrow, wide), made, narrow, self.wide)
        return again(lambda output, made: output * torch.nn.functional.silu(made[:, -self.inner:]), output, made)


def kept_bytes(layer, tokens):
    """Of all that is saved, each storage once, except parameters and the input; and the output."""
    own = {tensor.untyped_storage().data_ptr() for tensor in [tokens, *layer.parameters]}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(tokens)
    return sum(kept.values()), output


def products(counter):
    """Without convolutions, of whose backward the counter does not know that they are of single channels."""
    counts = counter.get_flop_counts()['Global']
    return sum(count for name, count in counts.items() if 'convolution' not in str(name))


@unittest.skipUnless(torch, 'there is no PyTorch')
class Scans(unittest.TestCase):
    def holds(self, config, layer, besides=0):
        """Operations and bytes of a layer; returns its products, forward and backward."""
        torch.manual_seed(1)
        tokens = torch.randn(TOKENS, 128, dtype=torch.bfloat16, requires_grad=True)
        profile = weir.estimate(config, 'h100-sxm', sequence=TOKENS).profile().document
        made = next(one for one in profile['layers'] if one['kind'] in ('mamba', 'linear', 'conv'))
        kept, output = kept_bytes(layer, tokens)
        self.assertEqual(made['saved_bytes'] - besides, kept)
        with FlopCounterMode(display=False) as forward:
            layer(tokens)
        self.assertEqual(made['flops'], forward.get_total_flops() + layer.operations)
        with FlopCounterMode(display=False) as backward:
            output.backward(torch.ones_like(output))
        return products(forward), products(backward)

    def again_and_two_gradients(self, config, layer, scan_flops, ends=0):
        """Linear layers have two products in the backward, and those of a scan, which is computed again, three.

        At both `ends` of the sequence products with a state have no gradient.
        """
        forward, backward = self.holds(config, layer)
        linear = 2 * TOKENS * 128 * (layer.width + layer.inner)
        self.assertEqual(forward - linear, TOKENS * scan_flops)
        self.assertEqual(backward, 2 * linear + 3 * TOKENS * scan_flops - ends)

    def test_mamba2_has_its_products_and_bytes(self):
        one = Mamba2()
        self.again_and_two_gradients(MAMBA2, one, 2 * one.chunk * (one.groups * one.state + one.heads * one.size)
                                     + 4 * one.heads * one.size * one.state)

    def test_the_delta_rule_has_its_products_and_bytes(self):
        one = Delta()
        inverse = 2 * TOKENS * one.heads * one.chunk ** 2  # a product of its gradient, which estimates leave out
        self.again_and_two_gradients(DELTA, one, one.heads * (2 * one.chunk * (3 * one.state + 2 * one.size)
                                                              + 6 * one.size * one.state),
                                     ends=4 * 2 * one.chunk * one.heads * one.size * one.state - inverse)

    def test_a_decay_for_each_channel_has_its_products_and_bytes(self):
        one = Channels()
        inverse = 2 * TOKENS * one.heads * one.chunk ** 2
        low_rank = 2 * 2 * TOKENS * one.size * one.inner  # of which the backward has two products each
        forward, backward = self.holds(CHANNELS, one)
        linear = 2 * TOKENS * 128 * (one.width + one.inner) + low_rank
        scan = TOKENS * one.heads * (2 * one.chunk * 5 * one.size + 6 * one.size ** 2)
        self.assertEqual(forward - linear, scan)
        ends = 4 * 2 * one.chunk * one.heads * one.size ** 2
        self.assertEqual(backward, 2 * linear + 3 * scan - ends + inverse)

    def test_a_convolution_has_its_products_and_bytes(self):
        self.again_and_two_gradients(CONVOLUTION, Convolution(), 0)

    def test_lightning_attention_has_its_products_and_bytes(self):
        one = Lightning()
        self.again_and_two_gradients(LIGHTNING, one, one.heads * (4 * one.chunk * one.size + 4 * one.size ** 2),
                                     ends=3 * 2 * one.chunk * one.heads * one.size ** 2)

    def test_the_selective_scan_has_its_operations_and_bytes(self):
        states = TOKENS * 2 * 256 * 16 * 4 // 2048  # a pair of two numbers of 4 bytes, once in 2048 tokens
        self.holds(MAMBA, Mamba(), besides=states)


if __name__ == '__main__':
    unittest.main()
