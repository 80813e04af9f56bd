# States on the host: the same bits as a sequential run whose states are all at hand, on every schedule, in threads and
# in processes; and what is allocated, here and there, is what was planned.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o fp32.json >/dev/null
weir profile "$model" --device cpu:bf16 -o bf16.json >/dev/null
weir profile "$model,tied" -o tied.json >/dev/null

plan() {  # PROFILE SCHEDULE OPTIONS.., on two devices
    weir partition $1.json --cluster "2 devices, ${memory:-1GiB}, 10GB/s 1us, host 1GiB 2GB/s" --schedule $2 \
        --micro-batches 8 "${@:3}" -o plan.json 2>said >plan.txt || { grep -v untrusted said; return 1; }
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
for schedule in 1f1b gpipe zb-h1 interleaved chimera pipedream pipedream-2bw; do
    plan fp32 $schedule --host optimizer --optimizer adamw && verify $schedule cpu cpu:queued
done
plan fp32 1f1b --host optimizer --optimizer momentum && verify momentum cpu cpu:queued,graphs,link=1GB/s
plan bf16 1f1b --host optimizer --optimizer adamw-master && verify adamw-master cpu:bf16 cpu:bf16,queued
plan tied 1f1b --host optimizer --optimizer sgd --tied apart && verify "tied apart" cpu cpu:queued
plan fp32 1f1b --host optimizer && echo "processes: $(together weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
plan fp32 1f1b --host optimizer --replicas 2 && verify replicas cpu cpu:queued

echo "# in training, from a checkpoint, with gradients clipped"
train() {
    weir train "$model" --plan plan.json --data /usr/share/common-licenses --clip 0.1 --steps 6 "$@" 2>&1
}
plan fp32 1f1b --optimizer adamw && train --checkpoints without --save-every 6 >/dev/null
plan fp32 1f1b --host optimizer --optimizer adamw && train --checkpoints with --save-every 3 >with.txt
agree with.txt
diff -r -x '*.json' without/step-6 with/step-6 && echo "the bits of one without"
cp -r with/step-6 whole && rm -r with/step-6
train --checkpoints with --save-every 3 --resume >/dev/null
diff -r whole with/step-6 && echo "the bits of one that was never ended"
