#!/bin/bash
# Experts on skewed text: how well a placement made from 200 micro-batches fits the next 200, and what the text costs in
# bits beside a dense model of as many operations. Exits with 1 if one of the numbers is not what it should be.
#
#     bench/experts.sh
#
# The text has lines in ten made-up languages, language i as often as 1 / i, each with 400 words of 12 letters of its
# own, word i as often as 1 / i. All stays in out/experts.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
mkdir -p out/experts
cd out/experts
rm -rf kept later ./*.json

python3 - <<'END'
import random

rng = random.Random(1)
languages = []
for _ in range(10):
    letters = rng.sample('abcdefghijklmnopqrstuvwxyz', 12)
    languages.append([''.join(rng.choice(letters) for _ in range(rng.randint(2, 8))) for _ in range(400)])
with open('text.txt', 'w') as text:
    written = 0
    while written < 3_000_000:
        words = rng.choices(languages, [1 / (i + 1) for i in range(10)])[0]
        line = ' '.join(rng.choices(words, [1 / (i + 1) for i in range(400)], k=rng.randint(5, 15))) + '.\n'
        written += text.write(line)
END

plan() {  # MODEL NAME
    weir profile "$1" -o "$2.json" >/dev/null 2>&1
    weir partition "$2.json" --cluster '1 devices, 1GiB, 10GB/s 1us' --schedule gpipe --micro-batches 1 \
        -o "$2.plan.json" >/dev/null
}

uptime
model=gpt-moe-nano,experts=32
plan $model routed
train() {  # CHECKPOINTS OPTIONS..
    weir train $model --plan routed.plan.json --data text.txt --checkpoints "$1" --save-every 100 --every 100000 "${@:2}" \
        >"$1.txt" 2>&1
}
train kept --steps 300 --rate 0.003
train later --steps 1000 --rate 0.0003,to:0.0003 --weights kept/step-300
weir profile $model --data text.txt --batches 400 --weights kept/step-300 -o counted.json >/dev/null
weir profile $model --data text.txt --batches 400 --weights later/step-1000 -o counted-later.json >/dev/null
python3 - <<'END'
import json
import subprocess
import sys

MEMBERS, EACH = 8, 200


def slowest(members, counts):
    """Pairs of the slowest member in the mean, of one micro-batch after the other."""
    total = 0
    for micro_batch in counts:
        loads, shared = [0] * MEMBERS, 0
        for member, pairs in zip(members, micro_batch):
            if member == '*':  # on all members, each of which has an even share
                shared += -(-pairs // MEMBERS)
            else:
                loads[member] += pairs
        total += max(loads) + shared
    return total / len(counts)


def dropped(layer, counts):
    """The share of pairs that a capacity of 1.25 drops."""
    room = -(-5 * layer['pairs'] // (4 * len(counts[0])))
    return sum(max(0, n - room) for one in counts for n in one) / (len(counts) * layer['pairs'])


def read(name):
    with open(name, encoding='utf-8') as file:
        return json.load(file)


profile, fine = read('counted.json'), True
later = read('counted-later.json')['routing']['layers']
layers = [dict(layer, counts=list(layer['counts'])) for layer in profile['routing']['layers']]
profile['routing']['batches'] = EACH
for layer in profile['routing']['layers']:
    layer['counts'] = layer['counts'][:EACH]
with open('first.json', 'w', encoding='utf-8') as file:
    json.dump(profile, file)


def place(links):
    """The places of each layer."""
    subprocess.run(['weir', 'place', 'first.json', '--cluster', f'{MEMBERS} devices, 80GiB, {links}', '--json',
                    '-o', 'placed.json'], check=True)
    return read('placed.json')['layers']


# Links of a byte a second have no copies.
alone, copied = place('1B/s 3us'), place('300GB/s 3us')
assert not any('*' in put['members'] for put in alone)
print(f'{"layer":15} {"copies":>6} {"planned":>8} {"next":>8} {"off":>7} {"% p":>8} {"gain":>6} {"drops":>7}'
      f' {"next":>7} {"1,000 steps on":>15} {"% p":>8}')
for layer, put, after in zip(2 * layers, alone + copied, 2 * later):
    even = layer['pairs'] / MEMBERS
    modulo = [e % MEMBERS for e in range(len(layer['counts'][0]))]
    planned, then = (slowest(put['members'], part) / even for part in (layer['counts'][:EACH], layer['counts'][EACH:]))
    rule = slowest(modulo, layer['counts'][EACH:]) / even
    stated = next(c['dropped_ppm'] for c in put['capacities'] if c['factor_milli'] == 1250) / 1e6
    drops = dropped(layer, layer['counts'][EACH:])
    print(f'{layer["layer"]:15} {put["members"].count("*"):6} {planned:8.3f} {then:8.3f} {then / planned - 1:7.1%}'
          f' {rule:8.3f} {rule / then:6.2f} {stated:7.1%} {drops:7.1%} {slowest(put["members"], after["counts"]) / even:15.3f}'
          f' {slowest(modulo, after["counts"]) / even:8.3f}')
    fine &= abs(then / planned - 1) <= 0.05 and abs(stated - drops) <= 0.02
    fine &= put not in copied or rule / then >= 1.3  # what is planned for real links
sys.exit(0 if fine else 'a placement falls short')
END

steps=600
printf '\n%-14s %8s %8s %8s %8s   bits per byte held out, %d steps\n' model seed-1 seed-2 seed-3 mean $steps
for model in gpt-nano gpt-moe-nano; do
    plan $model $model
    bits=()
    for seed in 1 2 3; do
        weir train $model --plan $model.plan.json --data text.txt --steps $steps --rate 0.003 --seed $seed \
            --every 100000 >$model-$seed.txt 2>&1
        bits+=("$(sed -n 's/^held-out text: \([0-9.]*\) bits.*/\1/p' $model-$seed.txt)")
    done
    mean=$(awk "BEGIN { printf \"%.3f\", (${bits[0]} + ${bits[1]} + ${bits[2]}) / 3 }")
    printf '%-14s %8s %8s %8s %8s\n' $model "${bits[@]}" "$mean"
    dense=${dense-$mean}
done
awk "BEGIN { exit !($mean < $dense) }" || { echo 'experts need more bits than the dense model'; exit 1; }
