#!/bin/bash
# Trains a recommender with the dense layers of MLPerf's DLRM on devices of 256 MiB, two of them on this machine's
# processors. Its tables take 4.3 GiB, and are in the host's memory. Prints the time of an iteration and the bytes of
# each device, planned and measured, in three rounds that each profile, plan and train anew. Exits with 1 if bytes
# differ, or if the time is off by more than 10 % in the median.
#
#     bench/host_tables.sh      some three minutes; takes 12 GiB of memory, and wants an idle machine
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
out=$PWD/out/host_tables
model=dlrm,rows=1400000,columns=32,bottom=512/256/32,top=1024/1024/512/256,micro_batch=256
mkdir -p "$out"
uptime
[ -e "$out/clicks.json" ] || weir data make-clicks --ids 1400000 --samples 60000 -o "$out/clicks.json" >/dev/null
for round in 1 2 3; do
    rm -f "$out/profile.json" "$out/plan.json"
    weir profile $model --tables host18500 --data "$out/clicks.json" --batches 16 --clock wall -o "$out/profile.json" \
        >/dev/null
    weir partition "$out/profile.json" --cluster '2 devices, 256MiB, 10GB/s 1us' --schedule 1f1b --micro-batches 4 \
        --optimizer adagrad --variants host18500,host18500 -o "$out/plan.json" >/dev/null
    weir train $model --plan "$out/plan.json" --data "$out/clicks.json" --steps 50 --rate 0.02 --pin \
        >"$out/train.txt" 2>/dev/null || { tail -n 3 "$out/train.txt"; exit 1; }
    grep -E '^  (iteration time|peak bytes)' "$out/train.txt"
done | tee "$out/rounds.txt"
awk '/^  peak bytes/ && $5 != $6 { exit 1 }' "$out/rounds.txt" || { echo "bytes differ"; exit 1; }
median=$(awk '/^  iteration time/ { print $NF }' "$out/rounds.txt" | sort -n | sed -n 2p)
echo "measured / predicted, median of three rounds: $median"
awk -v median="$median" 'BEGIN { exit median < 0.9 || median > 1.1 }'
