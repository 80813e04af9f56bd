#!/bin/bash
# Trains the small models of pictures on Fashion-MNIST in a pipeline of two stages, each with two seeds, and prints what
# share of the held-out pictures is right. Exits with 1 if a mean falls short.
#
#     bench/pictures.sh [MODEL..]        fashion-mlp, fashion-cnn, resnet18 (all three; the last takes most of the time)
#
# Both seeds are trained at the same time, so that each fills the bubbles of the other. A run that was stopped goes on
# where it was; remove out/pictures to begin anew. The logs stay there, too, and `bench/pictures.sh --draw` makes
# docs/pictures/pictures.svg of them.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
out=$PWD/out/pictures
mkdir -p "$out"

if [ "${1-}" = --draw ]; then
    python3 bench/draw_logs.py "$out"/*.jsonl >docs/pictures/pictures.svg
    exit
fi
[ -e "$out/fashion.json" ] || weir data fashion-mnist -o "$out/fashion.json"
uptime

# MODEL SPEC MICRO-BATCHES OPTIMIZER RATE EPOCHS AUGMENT LEAST
rows() {
    cat <<'END'
fashion-mlp fashion-mlp 2 adamw 0.002 10 none 0.87
fashion-cnn fashion-cnn 2 adamw 0.002 6 none 0.895
resnet18 resnet18,pixels=28,channels=1,classes=10,stem=3x3s2,micro_batch=32 4 momentum 0.05,per:128 7 flips,shift:2 0.91
END
}

failed=
printf '%-12s %10s %7s %10s %8s %8s %8s %8s\n' model parameters epochs 'both take' seed-1 seed-2 mean least
while read -r name spec micro_batches optimizer rate epochs augment least; do
    [ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
    if [ ! -e "$out/$name.plan.json" ]; then
        weir profile "$spec" -o "$out/$name.profile.json" >/dev/null
        weir partition "$out/$name.profile.json" --cluster '2 devices, 4GiB, 10GB/s 1us' --schedule 1f1b \
            --micro-batches "$micro_batches" --optimizer "$optimizer" -o "$out/$name.plan.json" >/dev/null
    fi
    scores=()
    begin=$SECONDS
    for seed in 1 2; do
        weir train "$spec" --plan "$out/$name.plan.json" --data "$out/fashion.json" --epochs "$epochs" --rate "$rate" \
            --augment "$augment" --seed $seed --every 100000 --log "$out/$name-$seed.jsonl" --save-every 100 \
            --checkpoints "$out/$name-$seed" --resume >"$out/$name-$seed.txt" &
    done
    wait -n
    wait -n
    for seed in 1 2; do
        scores+=("$(sed -n 's/^held-out pictures: \([0-9.]*\) .*/\1/p' "$out/$name-$seed.txt")")
    done
    seconds=$((SECONDS - begin))
    parameters=$(weir model "$spec" --json | sed -n 's/^  "parameters": \([0-9]*\),/\1/p')
    mean=$(awk "BEGIN { printf \"%.4f\", (${scores[0]} + ${scores[1]}) / 2 }")
    printf '%-12s %10s %7s %8s s %8s %8s %8s %8s\n' "$name" "$parameters" "$epochs" $seconds "${scores[@]}" "$mean" "$least"
    awk "BEGIN { exit !($mean >= $least) }" || failed="$failed $name"
done < <(rows)
[ -z "$failed" ] || { echo "falls short:$failed"; exit 1; }
