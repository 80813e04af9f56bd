#!/bin/bash
# Experts on two members, measured: a placement by the routing of a text, experts dealt out, and the busiest experts on
# one member, each planned and run in turns. It says how far iterations are from what was planned. Members are on one
# device, where they only wait for each other, or on a device each, where they send messages. Needs two idle cores, and
# what bench/experts.sh leaves in out/experts.
#
#     bench/experts_measured.sh [ROUNDS]        (default: 5)
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
[ -d out/experts/kept/step-300 ] || { echo 'run bench/experts.sh first'; exit 1; }
cd out/experts
model=gpt-moe-nano,experts=32 weights=kept/step-300
rm -f two.json two-*.json

uptime
busiest=$(python3 - <<'END'
import json

with open('counted.json', encoding='utf-8') as file:
    layers = json.load(file)['routing']['layers']
words = []
for layer in layers:
    totals = [sum(counts) for counts in zip(*layer['counts'])]
    busy = sorted(range(len(totals)), key=lambda e: -totals[e])[:len(totals) // 2]
    words.append('+'.join('0' if e in busy else '1' for e in range(len(totals))))
print('/'.join(words))
END
)
weir profile $model --data text.txt --batches 200 --weights $weights --rows 2 --experts least,dealt,"$busiest" \
    --clock wall -o two.json >/dev/null
least=$(grep -o '"rows2:[^"]*"' two.json | tr -d '"' | sort -u | grep -vxF -e rows2:dealt -e "rows2:$busiest")
rm -f here.json
weir profile --calibrate -o here.json >/dev/null
rate=$(sed -n 's/.*"memory_bytes_per_second": \([0-9]*\).*/\1/p' here.json)B/s  # of updates, which read and write memory
plan() {  # NAME VARIANT
    weir partition two.json --cluster '2 devices, 4GiB, 10GB/s 1us' --schedule gpipe --ranks 1 --micro-batches 4 \
        --step-rate "$rate" --variants "$2" -o "two-$1.json" >/dev/null
}
plan least "$least"
plan dealt rows2:dealt
plan busiest "rows2:$busiest"
for ((round = 0; round < ${1:-5}; round++)); do
    for devices in cpu:queued cpu:queued,cpu:queued; do
        for name in least dealt busiest; do
            weir train $model --plan two-$name.json --data text.txt --weights $weights --steps 24 --rate 1e-9 \
                --every 100000 --device $devices 2>/dev/null |
                sed -n "s/^ *iteration time *\([0-9.]*\) ms *\([0-9.]*\) ms.*/$name $devices \1 \2/p"
        done
    done
done >two-times.txt
python3 - <<'END'
from statistics import median

rows = {}
with open('two-times.txt', encoding='utf-8') as file:
    for line in file:
        name, devices, planned, measured = line.split()
        rows.setdefault(devices.count(',') + 1, {}).setdefault(name, []).append((float(planned), float(measured)))
for devices, found in rows.items():
    print(f'{devices} device{"s" * (devices > 1)}:')
    print(f'  {"experts":10} {"planned":>9} {"measured":>9} {"measured / planned, each round":>32}')
    middle = {}
    for name, pairs in found.items():
        middle[name] = (pairs[0][0], median(measured for _, measured in pairs))
        print(f'  {name:10} {middle[name][0]:6.0f} ms {middle[name][1]:6.1f} ms '
              + ' '.join(f'{measured / planned:6.3f}' for planned, measured in pairs))
    for other in ('dealt', 'busiest'):
        planned, measured = (middle[other][i] / middle['least'][i] for i in (0, 1))
        print(f'  {other} takes {planned:.3f} times as long as least, planned, and {measured:.3f} times, measured')
END
