# Training in fp16 on the twin of fp16, whose loss is scaled: where gradients overflow on some stage no stage steps, and
# what is computed has the bits of a sequential run, on threads, devices and processes, with replicas that share the
# optimizer's state, gradients or weights, tied layers apart, clipping, states on the host, layers split over devices and
# a last micro-batch with fewer samples; resumed to the bit; and what is refused.
model=gpt-nano,tied,width=16,blocks=3,heads=2,sequence=16,micro_batch=2
weir profile $model --device cpu:fp16 -o profile.json >/dev/null
grep '"dtype"' profile.json
plan() {  # PLAN SCHEDULE OPTIONS OF WEIR PARTITION..
    weir partition profile.json --cluster "3 devices, 1GiB, 10GB/s 1us, host 8GiB 25GB/s" --schedule $2 \
        --micro-batches 4 --optimizer adamw-master -o $1 "${@:3}" >/dev/null
}
both() { tail -n 2 | cut -c 1-80; }
for schedule in gpipe 1f1b zb-v chimera; do
    plan $schedule.json $schedule --ranks 2 --tied apart
    echo "$schedule:"
    weir verify $schedule.json --device cpu:fp16 --steps 8 --loss-scale 16777216,2 --clip 0.5 --batch 7 | both
    weir verify $schedule.json --device cpu:fp16,queued,cpu:fp16,queued --steps 8 --loss-scale 16777216,2 2>/dev/null | both
done
echo "processes:"
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify zb-v.json --device cpu:fp16,queued --steps 8 --loss-scale 16777216,2 2>/dev/null >rank$rank.txt &
done
wait
both < rank0.txt
echo "replicas:"
plan replicas.json 1f1b --replicas 2,1 --shard optimizer --tied apart
weir verify replicas.json --device cpu:fp16 --steps 8 --loss-scale 16777216,2 | both
echo "on the host:"
plan host.json 1f1b --ranks 2 --host optimizer,activations --window 1 --tied apart
weir verify host.json --device cpu:fp16 --steps 8 --loss-scale 16777216,2 | both

echo "# trained, and gone on with"
train() { weir train $model --plan 1f1b.json --device cpu:fp16 --data /usr/share/common-licenses --loss-scale 16777216,2 "$@"; }
train --steps 12 --checkpoints whole > whole.txt
grep -o 'skipped: .*' whole.txt
grep 'were skipped' whole.txt
awk '/peak bytes/ { n++; bad += $5 != $6 } END { print n - bad " of " n " peaks agree" }' whole.txt
train --steps 12 --checkpoints ended --save-every 5 > ended.txt
rm -r ended/step-12
train --steps 12 --checkpoints ended --resume 2>&1 > again.txt | grep -v ' is kept$' | cut -d / -f 1
for file in whole/step-12/*.safetensors; do cmp $file ended/step-12/$(basename $file); done && echo "the same bits"
cmp <(grep -v '"hash"' whole/step-12/manifest.json) <(grep -v '"hash"' ended/step-12/manifest.json) && echo "and the same counts"
grep -e '"precision"' -e '"loss_scale"' whole/step-12/manifest.json
weir eval $model --checkpoint whole --data /usr/share/common-licenses | tail -1 | cmp - <(grep ^held whole.txt) && echo "evaluated as it was"
plan other.json zb-h1 --ranks 3 --tied apart
weir train $model --plan other.json --device cpu:fp16 --data /usr/share/common-licenses --steps 14 --checkpoints whole \
    --resume 2>&1 | grep -c ^step

echo "# refused"
weir verify 1f1b.json --device cpu:fp16 --loss-scale 3 2>&1 || echo "exit $?"
weir verify 1f1b.json --device cpu:bf16 --loss-scale 4 2>&1 || echo "exit $?"
weir verify 1f1b.json --device cpu:queued,fp16,cpu:queued,bf16 2>&1 || echo "exit $?"
weir verify 1f1b.json --device cpu:bf16,fp16 2>&1 || echo "exit $?"
weir profile ${model/,tied/} --device cpu:fp16 --tensor 2 -o profile.json >/dev/null
plan stash.json pipedream --ranks 2
weir verify stash.json --device cpu:fp16 2>&1 || echo "exit $?"
weir verify stash.json --device cpu:bf16 | tail -1

echo "# layers split over devices"
weir partition profile.json --cluster "4 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 --ranks 2 \
    --optimizer adamw-master --variants tensor2,tensor2 -o split.json >/dev/null
weir verify split.json --device cpu:fp16 --steps 8 --loss-scale 16777216,2 --clip 0.5 --batch 7 | both
device=cpu:fp16,queued
weir verify split.json --device $device,$device,$device,$device --steps 8 --loss-scale 16777216,2 2>/dev/null | both
echo "# replicas that share gradients, and weights"
for shard in gradients weights; do
    plan shared.json 1f1b --replicas 2,1 --shard $shard
    weir verify shared.json --device cpu:fp16 --steps 8 --loss-scale 16777216,2 --clip 0.5 | both
done
