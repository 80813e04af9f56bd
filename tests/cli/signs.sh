# 1-bit Adam: replicas send each other signs of their momentum behind the freeze step, bit for bit as loops over all of
# them do: on threads, on devices that run ahead, in processes, over two copies of each stage; what a plan says of it,
# what is allocated, checkpoints, and that it learns as well as Adam with all bits.
exec 2>&1
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o gpt.json >/dev/null 2>&1
plan() {  # PLAN RANKS SCHEDULE OPTIONS..
    weir partition gpt.json --cluster "$2 devices, 1GiB, 10MB/s 1us" --schedule $3 --micro-batches 6 "${@:4}" -o $1 \
        2>&1 >/dev/null | grep -v untrusted
}
alike() {
    weir verify "$@" --steps 4 --freeze-step 2 2>/dev/null | tail -n 1
}
together() {  # RANKS COMMAND..
    local ranks=$1 rank
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "$@" >rank$rank.txt 2>&1 &
    done
    wait
}

echo "# the same bits"
for replicas in 2,1 2,2 3,1 4,1; do
    ranks=$((${replicas/,/+}))
    plan $replicas.json $ranks 1f1b --replicas $replicas --optimizer adam1bit
    echo "$replicas: $(alike $replicas.json)"
    echo "$replicas, a device that runs ahead: $(alike $replicas.json --device cpu:queued)"
done
together 3 weir verify 2,1.json --device cpu:queued --steps 4 --freeze-step 2
echo "2,1, processes: $(tail -n 1 rank0.txt)"
together 5 weir verify 4,1.json --device cpu:queued --steps 3 --freeze-step 1
echo "4,1, processes that begin to send signs at once: $(tail -n 1 rank0.txt)"
plan two.json 2 chimera --optimizer adam1bit
echo "two copies: $(alike two.json), $(alike two.json --device cpu:queued,cpu:queued)"
plan one.json 2 1f1b --optimizer adam1bit
echo "one of each: $(alike one.json), $(alike one.json --clip 0.5)"

echo "# what is planned, and what is held"
plan adamw.json 3 1f1b --replicas 2,1 --optimizer adamw
python3 - << 'P'
import json
full, signs = json.load(open('adamw.json')), json.load(open('2,1.json'))
full, signs = full['stages'][0], signs['stages'][0]
weights, other = signs['memory']['weights_bytes'], full['memory']['weights_bytes']
print(signs['memory']['optimizer_bytes'] // weights, 'copies of state')
# Two replicas over 10 MB/s and 1 us, each way: half the gradients; of b blocks of signs what the other one owns.
for stage, way in (full, other - other // 2), (signs, 132 * (-(-weights // 4096) - -(-weights // 4096) // 2)):
    print(stage['costs']['reduce_ns'] - 2 * (1000 + 100 * way), 'ns off')
P
seq 20000 > data.txt
weir train "$model" --plan 2,1.json --data data.txt --steps 8 --freeze-step 6 | grep "peak bytes" |
    awk '$5 != $6 { print "peak differs: " $0 } { n++ } END { print n " peaks" }'

echo "# checkpoints"
train() {  # FOLDER FREEZE-STEP OPTIONS..
    weir train "$model" --plan 2,1.json --data data.txt --steps 8 --freeze-step $2 --rate 0.0003 --checkpoints $1 "${@:3}" |&
        grep '^weir: ' | grep -v ' is kept$'  # which goes by the disk, for those between two others
}
for freeze in 6 2; do
    train whole $freeze --save-every 8
    train ended $freeze --save-every 4 --keep 2
    rm -r ended/step-8
    train ended $freeze --save-every 4 --resume
    for folder in whole ended; do
        (cd $folder/step-8 && sha256sum *.safetensors) > $folder.txt
    done
    cmp -s whole.txt ended.txt && echo "frozen at $freeze: the bits of a run that was not ended"
    grep -h freeze_step ended/step-8/manifest.json
    (cd ended/step-8 && ls | grep copy)
    [ $freeze = 6 ] && rm -r whole ended
done
mkdir other damaged
cp -r ended/step-8 other
cp -r ended/step-4 ended/step-8 damaged
weir train "$model" --plan 3,1.json --data data.txt --steps 10 --freeze-step 2 --rate 0.0003 --checkpoints other \
    --save-every 10 --resume |& grep '^weir: what compression'
printf x | dd of=damaged/step-8/stage0.copy1.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
train damaged 2 --save-every 8 --resume | sed 's/bytes .*, stage0/.., stage0/; s/checksum .*;/checksum ..;/'
for folder in whole damaged; do
    (cd $folder/step-8 && sha256sum *.safetensors) > $folder.txt
done
cmp whole.txt damaged.txt && echo "the checkpoint before a damaged one: the same bits"
train() {
    together 3 weir train "$model" --plan 2,1.json --data data.txt --steps 8 --freeze-step 2 --rate 0.0003 \
        --device cpu:queued --checkpoints "$@"
}
train processes --save-every 4 --keep 2
rm -r processes/step-8
train processes --save-every 4 --resume
(cd processes/step-8 && sha256sum *.safetensors) > processes.txt
cmp whole.txt processes.txt && echo "processes, ended as well: the same bits"

echo "# what it learns"
# On one stage, and from a text that stays: signs have a scale per stage, and what they cost goes with both.
cat "$ROOT"/LICENSE{,,,} > text.txt
learner="gpt-nano,width=32,blocks=2,heads=2,sequence=32,micro_batch=4"
weir profile "$learner" -o gpt.json >/dev/null 2>&1
for optimizer in adamw adam1bit; do
    plan $optimizer.json 2 1f1b --replicas 2 --optimizer $optimizer
    weir train "$learner" --plan $optimizer.json --data text.txt --steps 200 --every 200 |
        sed -n 's/^step 200 of 200  loss \([0-9.]*\) .*/\1/p' > $optimizer.txt
done
paste adamw.txt adam1bit.txt | awk '{ print $2 < $1 + 0.25 && $1 < 3.5 ? "near Adam" : "far from Adam: " $0 }'

echo "# what is refused"
weir verify 2,1.json --clip 0.5; echo "exit $?"
weir verify adamw.json --freeze-step 3; echo "exit $?"
for options in "--shard optimizer" "--host optimizer" "--tied apart"; do
    weir partition gpt.json --cluster "3 devices, 1GiB, 10MB/s 1us, host 1GiB 1GB/s" --schedule 1f1b --micro-batches 6 \
        --replicas 2,1 --optimizer adam1bit $options |& grep -v untrusted; echo "exit ${PIPESTATUS[0]}"
done
weir partition gpt.json --cluster "3 devices, 1GiB, 10MB/s 1us" --schedule pipedream --micro-batches 6 --replicas 2,1 \
    --optimizer adam1bit |& grep -v untrusted
