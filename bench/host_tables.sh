#!/bin/bash
# Trains a recommender whose tables take 4.3 GiB on devices of 256 MiB, two of them on this machine's processors: the
# tables are in the host's memory. Prints the time of an iteration and the bytes of each device, planned and measured,
# and exits with 1 if bytes differ, or if the time is off by more than 10 %.
#
#     bench/host_tables.sh      some two minutes; takes 12 GiB of memory, and wants an idle machine
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
out=$PWD/out/host_tables
model=dlrm,rows=1400000,columns=32,bottom=64/32,top=64,micro_batch=256
mkdir -p "$out"
uptime
[ -e "$out/clicks.json" ] || weir data make-clicks --ids 1400000 --samples 60000 -o "$out/clicks.json" >/dev/null
weir profile $model --tables host30000 -o "$out/profile.json" | tail -n 1
weir partition "$out/profile.json" --cluster '2 devices, 256MiB, 10GB/s 1us' --schedule 1f1b --micro-batches 4 \
    --optimizer adagrad --variants host30000,host30000 -o "$out/plan.json" >/dev/null
weir train $model --plan "$out/plan.json" --data "$out/clicks.json" --steps 50 --rate 0.02 --pin >"$out/train.txt" 2>/dev/null ||
    { tail -n 3 "$out/train.txt"; exit 1; }
grep -E '^  (iteration time|peak bytes)' "$out/train.txt"
awk '/^  peak bytes/ && $5 != $6 { off = 1 } /^  iteration time/ && ($NF < 0.9 || $NF > 1.1) { off = 1 } END { exit off }' \
    "$out/train.txt"
