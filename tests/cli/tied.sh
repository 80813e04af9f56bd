# GPT-2's kind: a head that reads the embedding's words, which stand on other stages. Both have them, add up what
# each has to say of them, and stay alike: bit for bit the sequential run, in threads and in processes.
model="gpt-nano,tied,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o fp32.json >/dev/null
weir profile "$model" --device cpu:bf16 -o bf16.json >/dev/null

plan() {  # PROFILE SCHEDULE OPTIONS.., on four devices
    weir ${command:-price} $1.json --cluster "4 devices, 1GiB, 10GB/s 1us" --schedule $2 --micro-batches 8 "${@:3}" \
        -o plan.json >/dev/null
}
together() {  # COMMAND.., a process for each of four ranks
    local codes="" rank
    for ((rank = 0; rank < 4; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet "$@" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do
        wait $job
        codes="$codes $?"
    done
    echo "exit$codes"
}
peaks() {
    awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' $1
}

plan fp32 1f1b --tied together --cuts "[1,2,2,3]" 2> said || echo "exit $?"
grep -v untrusted said
for how in "--tied apart" ""; do  # which goes without saying where the schedule flushes
    plan fp32 1f1b $how --cuts "[1,2,2,3]" && grep -o '"tied_apart": [a-z]*' plan.json
done
command=partition plan fp32 pipedream --ranks 1 && { grep -o '"tied_apart": [a-z]*' plan.json || echo together; }
for schedule in 1f1b gpipe zb-h1; do
    plan fp32 $schedule --tied apart --cuts "[1,2,2,3]"
    for device in cpu cpu:queued; do
        echo "$schedule, $device: $(weir verify plan.json --device $device | tail -n 1)"
    done
    echo "$schedule, processes: $(together weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
    plan bf16 $schedule --tied apart --cuts "[1,2,2,3]" --optimizer adamw-master
    echo "$schedule, cpu:bf16: $(weir verify plan.json --device cpu:bf16 | tail -n 1)"
done

# The first and the last layer on ranks of one's own and of several.
for replicas in 2,1,1 1,1,2; do
    weir partition fp32.json --cluster "4 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 8 --tied apart \
        --replicas $replicas -o plan.json >/dev/null
    echo "$replicas: $(together weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
done

# What each rank allocates is what was planned, copies and all.
plan fp32 1f1b --tied apart --cuts "[1,2,2,3]"
weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 3 | peaks
together weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 3 --device cpu:queued
peaks rank0.txt

# Without a flush there is no moment for it.
command=partition plan fp32 pipedream --tied apart 2> said || echo "exit $?"
grep -v untrusted said
