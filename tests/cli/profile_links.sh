# The links between ranks, as a cluster that plans can be made for: by devices of one process, and by processes.
# Times differ from run to run; what stands in which place does not.
said() {
    "$@" 2>&1
    echo "exit $?"
}
together() {  # RANKS COMMAND..
    local ranks=$1 codes="" rank
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet "$@" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do
        wait $job
        codes="$codes $?"
    done
    echo "exit$codes"
}
shape() {  # the document, without what was measured here
    sed -E "s/\"$(hostname)\./\"HOST./; s/(latency_ns|bytes_per_second)\": [0-9]+/\1\": N/g" $1
}

echo "# two devices of one process"
weir profile --links --device cpu:queued,cpu:queued --memory 1GiB -o two.json >table.txt; echo "exit $?"
awk '/ranks on|^ranks|^ *[0-9]+ - |^Level/ { print $1, $2, $3 }' table.txt  # and sentences, as the link is
shape two.json

echo "# three processes: rank 0 speaks"
together 3 weir profile --links --device cpu:queued --memory 1GiB -o three.json
cat rank1.txt rank2.txt
shape three.json | grep -v notes
weir profile gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2 -o profile.json >table.txt
weir partition profile.json --cluster three.json --schedule 1f1b --micro-batches 4 -o plan.json >table.txt; echo "exit $?"

echo "# what cannot be"
said weir profile --links --device cpu:queued --memory 1GiB
said weir profile --links --device cpu,cpu --memory 1GiB
said weir profile --links --device cpu:queued,cpu:queued
said weir profile --links --clock wall | head -n 1
said weir profile gpt-nano --memory 1GiB | head -n 1
together 2 weir profile --links --device cpu --memory 1GiB
cat rank0.txt
