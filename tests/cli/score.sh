# Probabilities for samples, forwards alone through the stages of a plan: the same bytes whatever plan, place and number
# of ranks, and the AUC and shares that training has printed.
exec 2>&1
weir data make-clicks --samples 3000 --slots 4 --numbers 3 --ids 20 -o clicks.json >/dev/null
model=dlrm,numbers=3,slots=4,rows=20,columns=4,bottom=16,top=16,micro_batch=32
weir profile $model --rows 2 -o profile.json >/dev/null 2>&1
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be right, which is said
plan() {  # NAME RANKS SCHEDULE OPTIONS..
    weir partition profile.json --cluster "$2 devices, 1GiB, 10GB/s 1us" --schedule $3 --micro-batches 4 \
        --optimizer adagrad "${@:4}" -o $1.json >/dev/null
}
plan one 1 gpipe
plan two 2 1f1b
plan three 3 zb-h1
plan turns 2 interleaved --chunks 2
plan stale 2 pipedream
plan forwards 2 forward-only
plan copies 3 1f1b --replicas 2,1
plan rows 4 1f1b --variants rows2,rows2
train() {  # PLAN FOLDER
    weir train $model --plan $1.json --data clicks.json --rate 0.05 --seed 3 --checkpoints $2 --every 1000 --epochs 2 \
        2>train.err | grep '^held-out'
}
score() { weir score $1.json --weights $2 --data clicks.json -o $3.tsv "${@:4}"; }  # PLAN FOLDER NAME OPTIONS..
auc() {  # FILE, by all pairs
    python3 - $1 <<'END'
import sys
rows = [line.split('\t') for line in open(sys.argv[1])]
ones, zeros = ([float(row[1]) for row in rows if int(row[-1]) == label] for label in (1, 0))
print('AUC %.4f' % (sum((p > q) + (p == q) / 2 for p in ones for q in zeros) / len(ones) / len(zeros)))
END
}

echo "# two checkpoints, scored by any plan: the same bytes"
for trained in two rows; do
    train $trained of-$trained >printed.txt
    score one of-$trained one; echo "exit $?"
    echo "$(auc one.tsv), $(grep -o 'AUC [0-9.]*' printed.txt | head -n 1) in training"
    for plan in two three turns stale forwards copies rows; do
        score $plan of-$trained $plan >/dev/null && cmp one.tsv $plan.tsv
    done
    mv one.tsv of-$trained.tsv
done

echo "# as they were trained on, and all; a part of a micro-batch in the end"
for split in train held-out all; do
    score two of-two $split --split $split
    echo "$(wc -l <$split.tsv) lines, from sample $(head -n 1 $split.tsv | cut -f 1)"
done
cat train.tsv held-out.tsv | python3 -c '
import sys
ours, all_at_once = ([line.split("\t") for line in file] for file in (sys.stdin, open("all.tsv")))
alike = all(p[::2] == q[::2] and abs(float(p[1]) - float(q[1])) < 1e-6 for p, q in zip(ours, all_at_once, strict=True))
print("samples stand elsewhere in their micro-batches:", "alike" if alike else "others")'
cmp held-out.tsv of-two.tsv
python3 - all.tsv <<'END'
import struct, sys
cells = [line.split('\t')[1] for line in open(sys.argv[1])]
single = [struct.unpack('f', struct.pack('f', float(cell)))[0] for cell in cells]
print(f'{len(cells)} probabilities of {len(set(cells))} values, as floats:', ['%.9g' % p for p in single] == cells)
END
score two of-two/step-43 step >/dev/null && cmp step.tsv of-two.tsv
weir score two.json --weights of-two --data clicks.json >piped.tsv 2>said.txt && cmp piped.tsv of-two.tsv && cat said.txt

echo "# on devices of their own, in processes, and by MPI"
together() {  # PROCESSES COMMAND..
    local ranks=$1 codes="" rank
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "${@:2}" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do wait $job; codes="$codes $?"; done
    echo "exit$codes"
}
score two of-two devices --device cpu:queued,cpu:queued >/dev/null && cmp devices.tsv of-two.tsv
for plan in two:2 copies:3 rows:4; do
    rm -f together.tsv
    together ${plan#*:} weir score ${plan%:*}.json --weights of-two --data clicks.json -o together.tsv
    tail -n 1 rank0.txt; wc -c <rank1.txt
    cmp together.tsv of-two.tsv
done
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS timeout -k 5 300 mpirun -n 2 weir score two.json --weights of-two --data clicks.json \
        --device cpu:queued,mpi -o mpi.tsv >mpi.txt 2>&1
    cmp mpi.tsv of-two.tsv || cat mpi.txt
fi
mkdir other && weir data make-clicks --samples 3000 --slots 4 --numbers 3 --ids 20 --seed 2 -o other/clicks.json >/dev/null
codes=""
for rank in 0 1; do
    data=$([ $rank = 0 ] && echo clicks.json || echo other/clicks.json)
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir score two.json --weights of-two \
        --data $data -o unlike.tsv >rank$rank.txt 2>&1 &
done
for job in $(jobs -p); do wait $job; codes="$codes $?"; done
echo "exit$codes: $(sed 's/hash [0-9a-f]*/hash N/g' rank1.txt)"
[ -e unlike.tsv ] || echo 'nothing is written'

echo "# pictures"
python3 - <<'END'
import random, struct
def idx(name, sizes, numbers):
    with open(name, 'wb') as file:
        file.write(struct.pack('>BBBB', 0, 0, 8, len(sizes)) + struct.pack(f'>{len(sizes)}I', *sizes) + bytes(numbers))
draw = random.Random(1)
for name, count in ('train', 100), ('held', 30):
    labels = [draw.randrange(4) for _ in range(count)]
    idx(name + '.pixels', (count, 8, 8), [draw.randrange(100) + 150 * (x // 2 == label)
                                          for label in labels for y in range(8) for x in range(8)])
    idx(name + '.labels', (count,), labels)
END
weir data idx train.pixels train.labels held.pixels held.labels -o bars.json >/dev/null
pictures=fashion-mlp,pixels=8,classes=4,micro_batch=16
weir profile $pictures -o bars.profile >/dev/null 2>&1
weir partition bars.profile --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 2 -o bars.plan \
    >/dev/null 2>&1
weir train $pictures --plan bars.plan --data bars.json --checkpoints bars --rate 0.01 --epochs 4 2>/dev/null |
    grep -o '^held-out pictures: [0-9.]* are right'
weir score bars.plan --weights bars --data bars.json -o bars.tsv | tail -n 1
awk -F '\t' '{ right += $2 == $4; sure += $3 > 0.25 } END { printf "%.4f are right, %d of %d surer than by chance\n", right / NR, sure, NR }' bars.tsv

echo "# refused"
refused() { weir score "$@" -o refused.tsv; echo "exit $?"; }
refused two.json --weights of-two --data bars.json
refused bars.plan --weights of-two --data bars.json
refused two.json --weights nowhere --data clicks.json
refused two.json --weights of-two --data profile.json
refused two.json --weights of-two --data clicks.json --split test
refused two.json --weights of-two
refused bars.plan --weights bars --data bars.json --device cpu:bf16
weir profile gpt-nano,width=16,blocks=1,heads=2,sequence=16,micro_batch=2 -o text.profile >/dev/null 2>&1
weir partition text.profile --cluster "1 device, 1GiB, 10GB/s 1us" --schedule gpipe --micro-batches 2 -o text.plan >/dev/null 2>&1
refused text.plan --weights of-two --data clicks.json
cp -r of-two broken && for step in broken/*/; do truncate -s -1 $step/top.linear1.safetensors; done
refused two.json --weights broken --data clicks.json
[ -e refused.tsv ] || echo 'nothing is written'
