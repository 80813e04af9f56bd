#!/bin/bash
# Trains on real text for some minutes, then repeats the run while it is killed, asked to stop, and killed again. Checks
# that both runs end with the same weights and optimizer state, bit for bit. Exits with 1 if they differ.
#
#     bench/interrupted_training.sh [MINUTES [MODEL [DATA]]]
#
# There are two ranks, a process each, by 1f1b. Prints the time of the whole run and that of the interrupted one.
set -eu
minutes=${1:-10} model=${2:-gpt-nano} data=${3:-/usr/share/common-licenses}
weir=$(realpath "${WEIR_BUILD:-build/release}/bin/weir")
export WEIR_LIBEXEC=${WEIR_LIBEXEC:-$(dirname "$weir")/../libexec}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$weir" profile "$model" -o profile.json >/dev/null
"$weir" partition profile.json --cluster '2 devices, 16GiB, 10GB/s 5us' --schedule 1f1b --micro-batches 8 -o plan.json >/dev/null
run=0
train() {  # FOLDER STEPS SAVE-EVERY ARGUMENTS..: both ranks; their processes are in `ranks`
    local kept=$1 steps=$2 every=$3
    shift 3
    run=$((run + 1)) ranks=()
    for rank in 0 1; do
        WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$folder/meet-$run "$weir" train "$model" --plan plan.json --data "$data" \
            --steps "$steps" --device cpu:queued --checkpoints "$kept" --save-every "$every" "$@" >>"$kept.$rank.txt" 2>&1 &
        ranks+=($!)
    done
}
end() { for process in "${ranks[@]}"; do wait "$process" 2>/dev/null || true; done; }
newest() { find "$1" -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null | sed 's/.*step-//' | sort -n | tail -1; }

since=$(date +%s%N)
train tried 40 40
end
[ "$(newest tried)" = 40 ] || { cat tried.*.txt; exit 1; }
each=$((($(date +%s%N) - since) / 40))
steps=$((minutes * 60000000000 / each / 8 * 8)) every=$((steps / 40 > 0 ? steps / 40 : 1))
echo "$model: $steps steps of $((each / 1000000)) ms, a checkpoint every $every"

since=$(date +%s)
train whole "$steps" "$every"
end
echo "the whole run took $(($(date +%s) - since)) s"

since=$(date +%s)
train parts "$steps" "$every"
for interruption in KILL TERM KILL; do
    goal=$((${goal:-0} + steps / 4))
    while [ "$(newest parts)" = '' ] || [ "$(newest parts)" -lt "$goal" ]; do
        kill -0 "${ranks[0]}" 2>/dev/null || { cat parts.*.txt; exit 1; }
        sleep 0.1
    done
    sleep 0.$((RANDOM % 10))
    kill -$interruption "${ranks[$((RANDOM % 2))]}"
    end
    echo "SIG$interruption behind step $goal: the newest checkpoint is of step $(newest parts)"
    train parts "$steps" "$every" --resume
done
end
echo "the interrupted run took $(($(date +%s) - since)) s"
[ "$(newest whole)" = "$steps" ] && [ "$(newest parts)" = "$steps" ]
compared=0
for file in whole/step-"$steps"/*.safetensors; do
    cmp "$file" "parts/step-$steps/${file##*/}"
    compared=$((compared + 1))
done
echo "$compared files of weights and states are the same, to the bit"
grep -h ^held whole.0.txt parts.0.txt
