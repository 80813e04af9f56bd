# A GPT with a pattern in PyTorch, in double, by its own attention with a mask: the loss of a step, and its gradients.
python=${WEIR_PYTHON:-python3}
found='import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, ["torch", "safetensors"])))'
"$python" -c "$found" || { echo '# skip: no Python packages torch and safetensors'; exit 77; }
cat >model.py <<'PYTHON'
import json
import sys
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy, gelu, layer_norm, scaled_dot_product_attention

LENGTH, WIDTH, BLOCKS, HEADS = 48, 32, 2, 4
window, share, stride, block = map(int, sys.argv[1:5])
step = json.loads([line for line in open('log.jsonl') if '"step"' in line and '"loss"' in line][-1])
text = open('text', 'rb').read()

def load(folder, kind=''):
    names = ['embedding', 'head'] + [f'block{i}.{half}' for i in range(BLOCKS) for half in ('attention', 'mlp')]
    return {name: tensor.double() for part in names
            for name, tensor in load_file(f'{folder}/{part}{kind}.safetensors').items()}

# Adam's first moments are a tenth of the first gradients. The rate is so small that weights stay as they began.
weights = {name: tensor.requires_grad_() for name, tensor in load('kept/step-1').items()}
gradients = {name[:-len('.first_moment')]: tensor / 0.1 for name, tensor in load('kept/step-1', '.optimizer').items()
             if name.endswith('.first_moment')}
i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)[None, :]
mask = (i - j < window) | (j < share)
if stride:
    mask |= j % stride >= stride - block
mask &= j <= i

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
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + product(mixed.permute(1, 0, 2).reshape(LENGTH, WIDTH), name + '.out')
        name = f'block{b}.mlp'
        x = x + product(gelu(product(norm(x, name), name + '.up'), approximate='tanh'), name + '.down')
    return cross_entropy(norm(x, 'head') @ weights['embedding.words'].T, tokens[1:])

# The text repeats itself, so that a window begins at one of few places.
with torch.no_grad():
    losses = [loss_at(start).item() for start in range(text.index(b'\n') + 1)]
start = min(range(len(losses)), key=lambda place: abs(losses[place] - step['loss']))
off = abs(losses[start] - step['loss'])
others = sorted(abs(loss - step['loss']) for loss in losses)
print('the loss of one place' if off < 2e-6 < others[1] else f'losses are off by {others[:2]}')
loss_at(start).backward()
worst = max((gradients[name] - tensor.grad.view_as(gradients[name])).abs().max().item()
            / tensor.grad.abs().max().item() for name, tensor in weights.items())
print('the same gradients' if worst < 1e-5 else f'gradients are off by {worst}')
PYTHON
for i in $(seq 1200); do echo "one line, quite like all the others, of 51 letters"; done >text
for pattern in 5/0/0/0 7/3/0/0 4/2/8/2 1/0/16/3; do
    IFS=/ read -r window share stride block <<<"$pattern"
    model=gpt-nano,tied,width=32,heads=4,blocks=2,sequence=48,micro_batch=1,window=$window
    [ $share = 0 ] || model+=,global=$share
    [ $stride = 0 ] || model+=,stride=$stride/$block
    weir profile $model -o profile.json >/dev/null
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 1 --tied apart \
        -o plan.json >/dev/null
    rm -rf kept log.jsonl
    weir train $model --data text --plan plan.json --steps 1 --rate 1e-35 --checkpoints kept --log log.jsonl \
        >/dev/null 2>&1
    echo "$model: exit $?"
    OMP_NUM_THREADS=1 "$python" model.py $window $share $stride $block
done
