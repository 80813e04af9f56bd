# Devices with whole layers that share the samples of each micro-batch: planned, and run bit for bit as one place
# computes all of them.
exec 2>&1
model=gpt-nano,width=32,heads=4,blocks=2,sequence=16,micro_batch=5
plan() { weir partition rows.json --cluster "8 devices, ${memory:-1GiB}, 5GB/s 2us" --micro-batches 4 "$@" -o plan.json >plan.txt; }
run() { weir verify plan.json "$@" | tail -n 1; }
together() {  # PROCESSES COMMAND..
    local ranks=$1 codes="" rank
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "${@:2}" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do wait $job; codes="$codes $?"; done
    echo "exit$codes, $(tail -n 1 rank0.txt)"
}

echo "# planned: a share of the samples each, whole weights, and a sum at each update"
weir profile $model --rows 2,3 -o rows.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' rows.json  # a busy machine's would not be right, which is said
plan --schedule 1f1b --variants rows2,rows2
grep -o 'variant rows2' plan.txt
plan --schedule 1f1b --variants rows2,-; echo "exit $?"
weir profile $model --rows 6 -o six.json; echo "exit $?"
weir profile resnet18,pixels=28,channels=1,classes=10,micro_batch=4 --rows 2 -o norms.json; echo "exit $?"

echo "# on threads, by each kind of schedule, in uneven shares, and with fewer samples than there is room for"
for row in 1f1b:rows2,rows2 zb-h1:rows3,rows3 gpipe:rows2,rows2 interleaved:rows2,rows2,rows2,rows2 chimera:rows2,rows2 \
    pipedream:rows3,rows3 pipedream-2bw:rows2,rows2; do
    plan --schedule ${row%:*} --variants ${row#*:} --ranks 2 && echo "${row%:*} $(run)"
done
plan --schedule 1f1b --variants rows3,rows3 && run --clip 0.1 && run --batch 16
plan --schedule 1f1b --variants rows2,rows2 --replicas 2,1 && run
plan --schedule 1f1b --variants rows2,rows2 --replicas 2,1 --shard optimizer && run
plan --schedule 1f1b --variants rows2,rows2 --replicas 2,1 --shard gradients && run
memory=540KiB plan --schedule gpipe --variants rows2,rows2 && grep -q 'runs again' plan.txt && run

echo "# a device for each, in one process and in several"
plan --schedule 1f1b --variants rows2,rows2 && run --device cpu:queued,cpu:queued,cpu:queued,cpu:queued
together 4 weir verify plan.json --clip 0.5
together 3 weir verify plan.json
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS timeout -k 5 300 mpirun -n 4 weir verify plan.json --device cpu:queued,mpi >mpi.txt 2>&1
    tail -n 1 mpi.txt | grep -q '^equal: ' || cat mpi.txt
fi

echo "# trained, and gone on from to the bit; any other plan reads its checkpoints"
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
train() {  # PLAN FOLDER
    weir train $model --plan $1.json --data text --steps 6 --every 6 --checkpoints $2 --save-every 3 --keep 9 --resume \
        2>train.err
    local code=$?
    grep -v ' is kept$' train.err >&2; return $code
}
cp plan.json two.json
plan --schedule 1f1b --ranks 2 && mv plan.json whole.json
train two once >table.txt; echo "exit $?"
awk '/peak bytes/ { print $1, $2, $3, $4, $5 == $6 ? "as planned" : "not as planned" }' table.txt
cp -r once again && rm -r again/step-6 && cp -r again other
train two again >/dev/null; diff -r once/step-6 again/step-6 && echo "the same bits"
train whole other >/dev/null; echo "exit $?"
