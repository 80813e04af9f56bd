#!/usr/bin/env bash
# Overlap of exchanges by tables-ahead: bench_exchange on a model with 26 tables, whose head says what it does. Needs
# two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
weir=$PWD/$build/bin/weir bench=$PWD/$build/bench/bench_exchange
folder=$(mktemp -d)
cd "$folder"
model=dlrm,numbers=13,slots=26,rows=20000,columns=32,bottom=256/128,top=256/128,micro_batch=1024,exchange
"$weir" profile "$model" --rows 2 --tables slots --clock wall -o profile.json >/dev/null
{
    printf '{ "format": "weir.schedule", "version": 1, "name": "in-turn", "weights": "flush", "ranks": 1, "stages": 2,'
    printf ' "micro_batches": 16, "exchanges": true, "routes": [[0, 0]], "route_of": [0'
    printf ', 0%.0s' {1..15}
    printf '], "actions": ["'
    for m in {0..15}; do printf '0F%d 1F%d 1B%d 0B%d ' $m $m $m $m; done
    printf '0STEP 1STEP"] }\n'
} >in-turn.json
for schedule in tables-ahead in-turn.json; do
    "$weir" partition profile.json --cluster "2 devices, 4GiB, 10GB/s 1us" --schedule $schedule --ranks 1 \
        --micro-batches 16 --variants rows2:slots,rows2:slots --optimizer adagrad \
        -o plan-${schedule%.json}.json >/dev/null
done
"$bench" plan-tables-ahead.json plan-in-turn.json "$model"
rm -r "$folder"
