# A GPT with experts in PyTorch, in double, by transformers' own routers and experts: the loss of a step, and the
# gradients of all losses together.
python=${WEIR_PYTHON:-python3}
found='import sys; from importlib.util import find_spec
sys.exit(not all(map(find_spec, ["torch", "safetensors", "transformers"])))'
"$python" -c "$found" || { echo '# skip: no Python packages torch, safetensors and transformers'; exit 77; }
cat >model.py <<'PYTHON'
import json
import math
import sys
import torch
from safetensors.torch import load_file
from torch.func import functional_call
from torch.nn.functional import cross_entropy, gelu, layer_norm, scaled_dot_product_attention
from transformers import DeepseekV3Config, MixtralConfig, SwitchTransformersConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
from transformers.models.switch_transformers.modeling_switch_transformers import (SwitchTransformersTop1Router,
                                                                                  router_z_loss_func)

LENGTH, WIDTH, BLOCKS, HEADS, EXPERTS, AUX, Z = 48, 32, 2, 4, 8, 0.5, 0.25
router, capacity = sys.argv[1], float(sys.argv[2])
step = json.loads([line for line in open('log.jsonl') if '"step"' in line and '"loss"' in line][-1])
text = open('text', 'rb').read()

def load(folder, kind=''):
    names = ['embedding', 'head', 'block0.attention', 'block0.mlp', 'block1.attention', 'block1.experts']
    return {name: tensor.double() for part in names
            for name, tensor in load_file(f'{folder}/{part}{kind}.safetensors').items()}

# Adam's first moments are a tenth of the first gradients. The rate is so small that weights stay as they began.
weights = {name: tensor.requires_grad_() for name, tensor in load('kept/step-1').items()
           if not name.endswith(('router.counts', 'router.bias'))}
gradients = {name[:-len('.first_moment')]: tensor / 0.1 for name, tensor in load('kept/step-1', '.optimizer').items()
             if name.endswith('.first_moment')}

def own(name):
    return weights['block1.experts.' + name]

def turned(name, rows):  # [experts][out][in], as transformers stores them
    return own(name).view(-1, rows, own(name).shape[1]).transpose(1, 2)

def mixtral(x):
    inner = own('down.weight').shape[0] // EXPERTS
    config = MixtralConfig(hidden_size=WIDTH, intermediate_size=inner, num_local_experts=EXPERTS, num_experts_per_tok=2)
    config._experts_implementation = 'eager'
    block = MixtralSparseMoeBlock(config).double()
    out = functional_call(block, {'gate.weight': own('router.weight').T,
                                  'experts.gate_up_proj': turned('up.weight', WIDTH),
                                  'experts.down_proj': turned('down.weight', inner)}, (x[None],))[0]
    logits = x @ own('router.weight')
    return out, AUX * load_balancing_loss_func((logits,), EXPERTS, 2) / 2 + Z * router_z_loss_func(logits[None])

def deepseek(x):
    inner, shared = own('down.weight').shape[0] // EXPERTS, own('shared.down.weight').shape[0]
    config = DeepseekV3Config(hidden_size=WIDTH, moe_intermediate_size=inner, n_routed_experts=EXPERTS,
                              n_shared_experts=shared // inner, num_experts_per_tok=2, n_group=4, topk_group=2,
                              norm_topk_prob=True, routed_scaling_factor=2.5)
    config._experts_implementation = 'eager'
    block = DeepseekV3MoE(config).double()
    left, right = own('shared.up.weight').chunk(2, dim=1)
    named = {'gate.weight': own('router.weight').T, 'experts.gate_up_proj': turned('up.weight', WIDTH),
             'experts.down_proj': turned('down.weight', inner), 'shared_experts.gate_proj.weight': left.T,
             'shared_experts.up_proj.weight': right.T, 'shared_experts.down_proj.weight': own('shared.down.weight').T}
    out = functional_call(block, named, (x[None],))[0]
    logits, _, chosen = functional_call(block.gate, {'weight': own('router.weight').T}, (x,))
    shares = logits.sigmoid() / logits.sigmoid().sum(-1, keepdim=True)
    counts = torch.bincount(chosen.flatten(), minlength=EXPERTS) / chosen.numel()
    return out, AUX * EXPERTS * (counts * shares.mean(0)).sum() + Z * router_z_loss_func(logits[None])

def switch(x):
    inner = own('down.weight').shape[0] // EXPERTS
    config = SwitchTransformersConfig(hidden_size=WIDTH, num_experts=EXPERTS, router_bias=False,
                                      expert_capacity=math.ceil(LENGTH / EXPERTS * capacity))
    module = SwitchTransformersTop1Router(config).double().eval()
    module.dtype = torch.float64
    taken, gates, logits = functional_call(module, {'classifier.weight': own('router.weight').T}, (x[None],))
    up, down = own('up.weight').view(EXPERTS, WIDTH, inner), own('down.weight').view(EXPERTS, inner, WIDTH)
    wide = gelu(torch.einsum('tw,ewi->tei', x, up) + own('up.bias'), approximate='tanh')
    given = torch.einsum('tei,eiw->tew', wide, down) + own('down.bias')
    out = gates[0] * (taken[0].double()[:, :, None] * given).sum(1)
    shares = logits[0].softmax(-1)
    counts = torch.bincount(shares.argmax(-1), minlength=EXPERTS) / LENGTH
    loss_at.dropped = LENGTH - int(taken.sum())
    return out, AUX * EXPERTS * (counts * shares.mean(0)).sum() + Z * router_z_loss_func(logits)

def norm(x, name):
    gain, offset = weights[name + '.norm.gain'].flatten(), weights[name + '.norm.offset'].flatten()
    return layer_norm(x, [WIDTH], gain, offset, 1e-5)

def product(x, name):
    return x @ weights[name + '.weight'] + weights[name + '.bias'].flatten()

def loss_at(start):
    tokens = torch.tensor(list(text[start:start + LENGTH + 1]))
    x = weights['embedding.words'][tokens[:-1]] + weights['embedding.positions']
    for b in range(BLOCKS):
        name = f'block{b}.attention'
        q, k, v = product(norm(x, name), name + '.qkv').view(LENGTH, 3, HEADS, -1).permute(1, 2, 0, 3)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + product(mixed.permute(1, 0, 2).reshape(LENGTH, WIDTH), name + '.out')
        if b == 0:
            name = f'block{b}.mlp'
            x = x + product(gelu(product(norm(x, name), name + '.up'), approximate='tanh'), name + '.down')
        else:
            given, losses = globals()[router](norm(x, 'block1.experts'))
            x = x + given
    return cross_entropy(norm(x, 'head') @ weights['embedding.words'].T, tokens[1:]), losses

# The text repeats itself, so that a window begins at one of few places.
loss_at.dropped = 0
with torch.no_grad():
    losses = [loss_at(start)[0].item() for start in range(text.index(b'\n') + 1)]
start = min(range(len(losses)), key=lambda place: abs(losses[place] - step['loss']))
off = abs(losses[start] - step['loss'])
others = sorted(abs(loss - step['loss']) for loss in losses)
print('the loss of one place' if off < 2e-6 < others[1] else f'losses are off by {others[:2]}')
sum(loss_at(start)).backward()
counts = load_file('kept/step-1/block1.experts.safetensors')['block1.experts.router.counts'].double().flatten()
print(f'{loss_at.dropped} dropped' if counts[-4] == loss_at.dropped else f'{counts[-4]} dropped, not {loss_at.dropped}')
found, losses = AUX * counts[-3].item() + Z * counts[-2].item(), loss_at(start)[1].item()
print('the same losses of the router' if abs(found - losses) < 1e-5 * losses else f'{found} is not {losses}')
worst = max(((gradients[name] - tensor.grad.view_as(gradients[name])).abs().max().item()
             / tensor.grad.abs().max().item(), name) for name, tensor in weights.items())
print('the same gradients' if worst[0] < 2e-5 else f'gradients are off by {worst}')
PYTHON
for i in $(seq 1200); do echo "one line, quite like all the others, of 51 letters"; done >text
for case in mixtral/dropless/swiglu switch/1.25 switch/0.75 deepseek/dropless/swiglu,shared=1,groups=4/2,scale=2.5; do
    router=${case%%/*} rest=${case#*/}
    capacity=${rest%%/*} more=
    [ "$rest" = "$capacity" ] || more=,${rest#*/}
    model=gpt-moe-nano,tied,width=32,heads=4,blocks=2,sequence=48,micro_batch=1,aux=0.5,z=0.25
    model+=,router=$router,capacity=$capacity$more
    weir profile $model -o profile.json >/dev/null
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 1 --tied apart \
        -o plan.json >/dev/null
    rm -rf kept log.jsonl
    weir train $model --data text --plan plan.json --steps 1 --rate 1e-35 --checkpoints kept --log log.jsonl \
        >/dev/null 2>&1
    echo "$model: exit $?"
    OMP_NUM_THREADS=1 "$python" model.py $router ${capacity/dropless/0}
done
