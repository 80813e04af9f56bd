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

echo "# activations: what goes there and comes back is in the schedule"
weir schedule 1f1b --ranks 3 --micro-batches 4 --moves --format json >moves.json
weir schedule moves.json | head -n 3
weir check moves.json | head -n 1
weir schedule moves.json --moves 2>&1
echo "exit $?"
python3 - <<'END'
import json
schedule = json.load(open('moves.json'))
row = dict.fromkeys('forward_ns backward_ns backward_input_ns backward_weight_ns recompute_ns step_ns output_bytes '
                    'kept_forward_bytes kept_weight_bytes transient_bytes fixed_bytes version_bytes'.split(), 0)
row |= {'forward_ns': 10, 'backward_ns': 20, 'move_ns': 15, 'kept_forward_bytes': 100, 'moved_bytes': 100}
schedule['costs'] = [row] * 3
json.dump(schedule, open('moves.json', 'w'))
END
weir simulate moves.json
weir simulate moves.json --json | grep -A 6 critical_path
plan fp32 gpipe --host activations && verify gpipe cpu cpu:queued,graphs cpu:queued,link=20MB/s
echo "# both"
for schedule in 1f1b zb-h1 interleaved pipedream-2bw; do
    plan fp32 $schedule --host optimizer,activations && verify $schedule cpu cpu:queued
done
plan fp32 zb-h1 --host optimizer,activations
echo "processes: $(together weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"

echo "# a window of layers"
for schedule in 1f1b zb-h1 chimera; do
    plan fp32 $schedule --host optimizer,activations --window 1 && verify $schedule cpu cpu:queued,graphs
done
plan fp32 1f1b --host optimizer --window 2 --replicas 2 && verify replicas cpu:queued
plan fp32 zb-h1 --host optimizer,activations --window 2 && verify "a layer ahead" cpu cpu:queued,graphs cpu:queued,link=20MB/s
plan bf16 1f1b --host optimizer --optimizer adamw-master --window 1 && verify adamw-master cpu:bf16,queued
plan tied 1f1b --host optimizer --window 1 --tied apart && verify tied cpu:queued
for schedule in 1f1b zb-h1; do
    weir price fp32.json --cluster "2 devices, 1GiB, 10GB/s 1us, host 1GiB 2000GB/s" --schedule $schedule \
        --micro-batches 8 --cuts '[5,3]' --recompute '[3,2]' --host optimizer,activations --window 2 --budget 1000 -o plan.json 2>/dev/null |
        grep again
    verify $schedule cpu:queued
done

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

echo "# a model whose states are four times what the device has"
large="gpt-nano,width=64,blocks=6,heads=2,sequence=8,micro_batch=1"
weir profile "$large" -o large.json >/dev/null
for memory in 8GiB 1300KB; do
    for holding in "" "--host optimizer,activations" "--host optimizer,activations --window 1"; do
        weir partition large.json --cluster "1 device, $memory, 10GB/s 1us, host 1GiB 2000GB/s" --schedule gpipe \
            --micro-batches 4 --budget 1000 $holding -o large_plan.json >/dev/null 2>&1
        echo "$memory${holding:+, }$holding: exit $?"
    done
    [ $memory = 8GiB ] && weir partition large.json --cluster "1 device, 8GiB, 10GB/s 1us" --schedule gpipe \
        --micro-batches 4 --budget 1000 -o roomy_plan.json >/dev/null 2>&1
done
awk '/"(weights|gradients|optimizer)_bytes"/ { sum += $2 } END { print (sum > 4 * 1300000 ? "four times" : sum) }' roomy_plan.json
awk '/"peak_bytes"/ { print ($2 + 0 <= 1300000 ? "fits" : $2) }' large_plan.json
for which in roomy large; do
    weir train "$large" --plan ${which}_plan.json --data /usr/share/common-licenses --steps 3 --checkpoints $which \
        --save-every 3 >$which.txt 2>&1
done
agree large.txt
diff -r -x '*.json' roomy/step-3 large/step-3 && echo "the bits of one that has room"

echo "# over a slow link"
weir price fp32.json --cluster "2 devices, 1GiB, 10GB/s 1us, host 1GiB 40MB/s" --schedule 1f1b --micro-batches 4 \
    --cuts '[4,4]' --host optimizer,activations --window 1 --budget 1000 -o plan.json >/dev/null 2>&1
train --steps 3 --device cpu:queued,link=20MB/s >slow.txt  # which both devices share, as the plan reckons
agree slow.txt
awk '/iteration time/ { print ($NF > 0.9 && $NF < 20 ? "as long as planned" : $0) }' slow.txt
