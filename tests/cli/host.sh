# States on the host: the same bits as a sequential run whose states are all at hand, on every schedule, in threads and
# in processes; and what is allocated, here and there, is what was planned.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o fp32.json >/dev/null
weir profile "$model" --device cpu:bf16 -o bf16.json >/dev/null
weir profile "$model,tied" -o tied.json >/dev/null

plan() {  # PROFILE SCHEDULE OPTIONS.., on two devices
    weir partition $1.json --cluster "2 devices, 1GiB, 10GB/s 1us, host 1GiB 2000GB/s" --schedule $2 --micro-batches 8 \
        --budget 1000 "${@:3}" -o plan.json 2>said >plan.txt || { grep -v untrusted said; return 1; }
}
verify() {  # NAME DEVICES..
    for device in "${@:2}"; do
        echo "$1, $device: $(weir verify plan.json --device $device 2>&1 | tail -n 1)"
    done
}
together() {  # COMMAND.., a process for each of two ranks
    local codes="" rank
    for rank in 0 1; do
        WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet "$@" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do
        wait $job
        codes="$codes $?"
    done
    echo "exit$codes"
}
agree() {  # in a table of weir train
    awk '/(peak|host) bytes/ && $5 != $6 { print "differs: " $0 } /(peak|host) bytes/ { n++ } END { print n " sums of bytes" }' $1
}

echo "# the optimizer"
for schedule in 1f1b chimera pipedream; do
    plan fp32 $schedule --host optimizer --optimizer adamw && verify $schedule cpu cpu:queued
done
plan fp32 1f1b --host optimizer --optimizer momentum && verify momentum cpu:queued,graphs,link=1GB/s
plan bf16 1f1b --host optimizer --optimizer adamw-master && verify adamw-master cpu:bf16,queued
plan tied 1f1b --host optimizer --optimizer sgd --tied apart && verify "tied apart" cpu:queued
plan fp32 1f1b --host optimizer --replicas 2 && verify replicas cpu:queued

echo "# activations"
plan fp32 gpipe --host activations && verify gpipe cpu cpu:queued,graphs
echo "# both"
for schedule in 1f1b zb-h1 interleaved pipedream-2bw; do
    plan fp32 $schedule --host optimizer,activations && verify $schedule cpu cpu:queued
done
plan fp32 zb-h1 --host optimizer,activations
echo "processes: $(together weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"

echo "# in training, from a checkpoint, with gradients clipped"
train() {
    weir train "$model" --plan plan.json --data /usr/share/common-licenses "$@" 2>&1
}
plan fp32 1f1b --optimizer adamw && train --steps 6 --clip 0.1 --checkpoints without --save-every 6 >/dev/null
plan fp32 1f1b --host optimizer,activations --optimizer adamw
train --steps 6 --clip 0.1 --checkpoints with --save-every 3 >with.txt
agree with.txt
diff -r -x '*.json' without/step-6 with/step-6 && echo "the bits of one without"
cp -r with/step-6 whole && rm -r with/step-6
train --steps 6 --clip 0.1 --checkpoints with --save-every 3 --resume >/dev/null
diff -r whole with/step-6 && echo "the bits of one that was never ended"

echo "# over a slow link"
weir price fp32.json --cluster "2 devices, 1GiB, 10GB/s 1us, host 1GiB 40MB/s" --schedule 1f1b --micro-batches 4 \
    --cuts '[4,4]' --host optimizer,activations -o plan.json >/dev/null 2>&1
train --steps 3 --device cpu:queued,link=20MB/s >slow.txt  # which both devices share, as the plan reckons
agree slow.txt
awk '/iteration time/ { print ($NF > 0.9 && $NF < 20 ? "as long as planned" : $0) }' slow.txt
