# transformers reads a checkpoint of GPT-2 as its own, and Weir what transformers has written: the same loss.
python=${WEIR_PYTHON:-python3}
"$python" -c 'import torch, transformers' 2>/dev/null || { echo '# skip: no Python packages torch and transformers'; exit 77; }
export HF_HUB_OFFLINE=1
cat >model.py <<'PYTHON'
import glob
import os
import sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, logging
logging.disable_progress_bar()
LENGTH, BLOCK = 16, 4096
DATA = '/usr/share/common-licenses'

def make(words):
    torch.manual_seed(3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=words, n_positions=2 * LENGTH, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=None, eos_token_id=None))
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained('theirs')
    model.save_pretrained('shards', max_shard_size='40KB')

def loss(folder):
    """Of every tenth block of text, as weir eval takes it."""
    model, said = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    if any(said.values()):
        print(said)
    model.eval()
    text = b''.join(open(path, 'rb').read() for path in sorted(glob.glob(DATA + '/*')) if not os.path.islink(path))
    held = torch.tensor(list(b''.join(text[at:at + BLOCK] for at in range(9 * BLOCK, len(text), 10 * BLOCK))))
    count = (len(held) - 1) // LENGTH  # whole windows; the last micro-batch may have fewer
    windows = held[:count * LENGTH].view(count, LENGTH).split(64)
    following = held[1:count * LENGTH + 1].view(count, LENGTH).split(64)
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(model(x).logits.flatten(0, 1), y.flatten(), reduction='none')
                  for x, y in zip(windows, following)]
    return torch.cat(losses).double().mean().item()

if sys.argv[1] == 'make':
    make(int(sys.argv[2]))
else:
    theirs, ours = loss(sys.argv[2]), float(sys.argv[3])
    print('the same loss' if abs(theirs - ours) < 1e-5 * theirs else f'{theirs} and {ours}')
PYTHON
for model in gpt2,width=32,blocks=2,heads=2,sequence=16,micro_batch=2 \
    gpt-nano,tied,width=32,blocks=2,heads=2,sequence=16,micro_batch=2; do
    echo "$model"
    rm -rf kept theirs shards
    weir profile "$model" -o profile.json >/dev/null
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 2 --tied apart \
        -o plan.json >/dev/null
    same() { "$python" model.py loss "$1" "$(weir eval "$model" --checkpoint "$1" --data /usr/share/common-licenses | awk '$1 == "loss" { print $2 }')" 2>err || cat err; }
    "$python" model.py make $([ "${model%%,*}" = gpt2 ] && echo 50257 || echo 256) >/dev/null 2>&1
    same theirs
    same shards
    # Trained on by us, and measured by them.
    weir train "$model" --data /usr/share/common-licenses --plan plan.json --steps 5 --weights theirs --checkpoints kept >/dev/null
    echo "exit $?"
    same kept/step-5
done
