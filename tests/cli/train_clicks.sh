# Clicks trained on by a plan: the same samples and bits on one rank and on two, gone on with, measured beside logistic
# regression, and below what no model exceeds.
weir data make-clicks --samples 20000 --slots 4 --numbers 3 --ids 20 -o clicks.json | tail -n 1 | sed 's/.*an AUC of/best:/;s/ on those.*//'
model=dlrm,numbers=3,slots=4,rows=20,columns=4,bottom=16,top=16,micro_batch=32
weir profile $model -o profile.json >/dev/null
plan() {  # NAME RANKS SCHEDULE
    weir partition profile.json --cluster "$2 devices, 1GiB, 10GB/s 1us" --schedule $3 --micro-batches 4 \
        --optimizer adagrad -o $1.json >/dev/null
}
plan one 1 gpipe
plan two 2 1f1b
plan three 3 zb-h1
train() {  # PLAN FOLDER ARGUMENTS..
    weir train $model --plan $1.json --data clicks.json --rate 0.05 --seed 3 --checkpoints $2 --every 1000 "${@:3}"
}
scores() { grep -o 'behind step.*\|^held-out.*' "$@" | tail -n 3; }
same() { for file in $1/*.safetensors; do cmp $file $2/$(basename $file) || return; done && echo "$1 and $2: the same bits"; }

echo '# four epochs of 18000 samples in batches of 128'
train one a --epochs 4 --beat 0.01 >one.txt 2>one.err; echo "exit $?"
grep -o 'k [a-z]*/s' one.txt one.err | sort -u
scores one.txt | sed 's/0\.[0-9]*/N/g;s/, the least so far//'
train two b --epochs 4 2>two.err | scores >scores.txt
diff <(scores one.txt) scores.txt
same a/step-563 b/step-563

echo '# stopped and gone on with, by another plan'
train three c --epochs 4 --save-every 100 --keep 20 >c.txt 2>c.err; echo "exit $?"
find c -maxdepth 1 -name 'step-*' ! -name step-100 -exec rm -r {} +
train two c --epochs 4 --resume >c.txt 2>c.err; echo "exit $?"
same a/step-563 c/step-563

echo '# optimizers of rows, stopped and gone on with'
for optimizer in adagrad-rows adam-rows; do
    weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 \
        --optimizer $optimizer -o rows.json >/dev/null
    weir partition profile.json --cluster "1 devices, 1GiB, 10GB/s 1us" --schedule gpipe --micro-batches 4 \
        --optimizer $optimizer -o row.json >/dev/null
    train rows whole-$optimizer --steps 30 >rows.txt 2>&1; echo "exit $?"
    train rows $optimizer --steps 30 --save-every 10 --keep 9 >rows.txt 2>&1; echo "exit $?"
    rm -r $optimizer/step-30
    train row $optimizer --steps 30 --resume >rows.txt 2>&1; echo "exit $?"
    same whole-$optimizer/step-30 $optimizer/step-30
done

echo '# two devices for each rank, which share the samples'
weir profile $model --rows 2 -o profile.json >/dev/null
weir partition profile.json --cluster "4 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 \
    --optimizer adagrad --variants rows2,rows2 -o rows.json >/dev/null
train rows rows --epochs 4 --beat 0.01 >rows.txt 2>rows.err; echo "exit $?"

echo '# measured by itself, and begun with'
weir eval $model --checkpoint a --data clicks.json | tail -n 1 | diff - <(grep '^held-out' one.txt) && echo "the same line"
train two d --epochs 1 --weights a/step-563 >d.txt 2>d.err
diff <(grep -o 'AUC of.*bits' d.txt | head -n 1) <(grep -o 'AUC of.*bits' one.txt | tail -n 1) && echo "the same score"

echo '# what does not fit is refused'
exec 2>&1
train one e --epochs 1 --beat 0.5 2>&1 | sed -n 's/0\.[0-9]*/N/g;/--beat/p'; echo "exit ${PIPESTATUS[0]}"
weir data make-clicks --samples 100 --slots 5 --numbers 3 --ids 20 -o other.json >/dev/null
weir train $model --plan one.json --data other.json --epochs 1; echo "exit $?"
weir data make-clicks --samples 100 --slots 4 --numbers 3 --ids 20 --most 3 -o many.json >/dev/null
weir train $model --plan one.json --data many.json --epochs 1; echo "exit $?"
for i in $(seq 20); do  # the last tenth is held out
    echo "$((i > 18 || i % 2))$(printf '\t%d' $(seq 13))$(printf '\t%08x' $(seq $i $((i + 25))))"
done >criteo.txt
weir data criteo criteo.txt --capacity 50 -o criteo.json >/dev/null
weir profile dlrm,rows=50 -o wide.json >/dev/null 2>&1
weir partition wide.json --cluster "1 devices, 1GiB, 10GB/s 1us" --schedule gpipe --micro-batches 1 -o wide.plan >/dev/null 2>&1
weir train dlrm,rows=50 --plan wide.plan --data criteo.json --epochs 1; echo "exit $?"
train one f --epochs 1 --augment flips; echo "exit $?"
