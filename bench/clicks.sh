#!/bin/bash
# Trains models of tables on clicks in a pipeline of two stages, each with three seeds, beside logistic regression on the
# same samples. Prints the AUC on what was held out, and exits with 1 if a mean is not as much higher as is asked for.
#
#     bench/clicks.sh [FOLDER]       FOLDER has ml-100k.inter, .item and .user; without one, pip fetches the wheel that
#                                    carries them (MovieLens-100k, for research only)
#
# Generated clicks have a best AUC that no model exceeds but by luck, and an AUC above it fails, too. All stays in
# out/clicks.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/release/bin:$PATH
out=$PWD/out/clicks
mkdir -p "$out"
folder=${1-$out/recbole/dataset_example/ml-100k}

if [ ! -e "$folder/ml-100k.inter" ]; then
    python3 -m pip -q download --no-deps -d "$out" recbole==1.2.1
    python3 -m zipfile -e "$out"/recbole-*.whl "$out"
fi
[ -e "$out/movielens.json" ] || weir data movielens "$folder"/ml-100k.{inter,item,user} -o "$out/movielens.json" >/dev/null
[ -e "$out/clicks.json" ] || weir data make-clicks -o "$out/clicks.json" >/dev/null

# DATA MODEL MICRO-BATCHES RATE EPOCHS LEAST
rows() {
    cat <<'END'
movielens dlrm,numbers=2,slots=8,rows=943/1682/19/7/2/21/256/73,ids=6,columns=16,cross=2,rank=32,micro_batch=256 2 0.02 8 0.008
clicks dlrm,rows=200,columns=8,micro_batch=512 4 0.02 2 0.02
END
}

uptime
failed=
printf '%-10s %10s %10s %8s %8s %8s %8s %8s %8s\n' data regression best seed-1 seed-2 seed-3 mean gain least
while read -r data spec micro_batches rate epochs least; do
    weir profile "$spec" -o "$out/$data.profile.json" >/dev/null
    weir partition "$out/$data.profile.json" --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b \
        --micro-batches "$micro_batches" --optimizer adagrad -o "$out/$data.plan.json" >/dev/null
    best=$(weir data "$out/$data.json" | sed -n 's/.* have an AUC of \([0-9.]*\) on those held out.*/\1/p')
    aucs=()
    for seed in 1 2 3; do
        weir train "$spec" --plan "$out/$data.plan.json" --data "$out/$data.json" --epochs "$epochs" --rate "$rate" \
            --seed $seed --every 100000 >"$out/$data-$seed.txt"
        aucs+=("$(sed -n 's/^held-out clicks: AUC \([0-9.]*\),.*/\1/p' "$out/$data-$seed.txt")")
    done
    regression=$(sed -n 's/.*logistic regression reaches an AUC of \([0-9.]*\).*/\1/p' "$out/$data-1.txt")
    mean=$(awk "BEGIN { printf \"%.4f\", (${aucs[0]} + ${aucs[1]} + ${aucs[2]}) / 3 }")
    gain=$(awk "BEGIN { printf \"%.4f\", $mean - $regression }")
    printf '%-10s %10s %10s %8s %8s %8s %8s %8s %8s\n' "$data" "$regression" "${best:--}" "${aucs[@]}" "$mean" "$gain" "$least"
    awk "BEGIN { exit !($gain >= $least && $mean <= ${best:-1}) }" || failed="$failed $data"
done < <(rows)
[ -z "$failed" ] || { echo "falls short:$failed"; exit 1; }
