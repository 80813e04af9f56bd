#!/usr/bin/env bash
# Overlap of what experts exchange: bench_exchange on a GPT whose layers of experts are cut, one rank of two devices,
# passes in turns beside passes one after the other. Needs two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
weir=$PWD/$build/bin/weir bench=$PWD/$build/bench/bench_exchange
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
model=gpt-moe-nano,micro_batch=8,capacity=dropless,exchange
"$weir" profile "$model" --rows 2 --experts dealt --clock wall -o profile.json >/dev/null
for open in 2 1; do
    "$weir" schedule gpipe --ranks 1 --micro-batches 8 --segments 5,$open --format json -o order.json
    "$weir" partition profile.json --cluster "2 devices, 4GiB, 10GB/s 1us" --schedule order.json --ranks 1 \
        --micro-batches 8 --variants rows2:dealt,rows2:dealt,rows2:dealt,rows2:dealt,rows2:dealt \
        -o plan-$open.json >/dev/null
done
"$bench" plan-2.json plan-1.json "$model"
