# transformers reads a checkpoint of GPT-2 as its own, and Weir what transformers has written: the same loss.
python=${WEIR_PYTHON:-python3}
found='import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, ["torch", "transformers"])))'
"$python" -c "$found" || { echo '# skip: no Python packages torch and transformers'; exit 77; }
mkdir data
cp /usr/share/common-licenses/{GPL-2,GPL-3,LGPL-2.1} data  # of which eval takes two blocks, the last not whole
cat >model.py <<'PYTHON'
import glob
import os
import sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, logging
logging.disable_progress_bar()
LENGTH, BLOCK = 16, 4096
DATA = 'data'

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

# One process for all, since its imports take more than what it does: a line is asked, and a line answers.
for line in sys.stdin:
    what, *given = line.split()
    if what == 'make':
        make(int(*given))
        print('made', flush=True)
    else:
        theirs, ours = loss(given[0]), float(given[1])
        print('the same loss' if abs(theirs - ours) < 1e-5 * theirs else f'{theirs} and {ours}', flush=True)
PYTHON
# PyTorch's threads would wait for each other in busy loops.
coproc HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 "$python" model.py 2>err
ask() { echo "$@" >&${COPROC[1]}; read -r answer <&${COPROC[0]} && echo "$answer" || cat err; }
for model in gpt2,width=32,blocks=2,heads=2,sequence=16,micro_batch=2 \
    gpt-nano,tied,width=32,blocks=2,heads=2,sequence=16,micro_batch=2; do
    echo "$model"
    rm -rf kept theirs shards
    weir profile "$model" -o profile.json >/dev/null
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 2 --tied apart \
        -o plan.json >/dev/null
    same() { ask loss "$1" "$(weir eval "$model" --checkpoint "$1" --data data | awk '$1 == "loss" { print $2 }')"; }
    ask make $([ "${model%%,*}" = gpt2 ] && echo 50257 || echo 256) >/dev/null
    same theirs
    same shards
    # Trained on by us, and measured by them.
    weir train "$model" --data data --plan plan.json --steps 5 --weights theirs --checkpoints kept >/dev/null
    echo "exit $?"
    same kept/step-5
done
exec {COPROC[1]}>&-
wait
