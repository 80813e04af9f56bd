# Replicas that share gradients, or gradients and weights (ZeRO 2 and 3): bit for bit the same order of additions on one
# processor, whatever the schedule, in threads and in processes; also with recomputation and with the host; allocated is
# what was planned; and checkpoints hold layers, whoever had what of them.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o fp32.json >/dev/null
weir profile "$model" --device cpu:bf16 -o bf16.json >/dev/null

plan() {  # PLAN PROFILE RANKS SCHEDULE OPTIONS..
    weir partition $2.json --cluster "$3 devices, ${memory:-1GiB}, 10GB/s 1us, host 10GiB 10GB/s" --schedule $4 \
        --micro-batches 6 "${@:5}" -o $1 >said.txt 2>error.txt || tail -n 1 error.txt
}
together() {  # RANKS COMMAND..
    local ranks=$1 codes="" rank
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "$@" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do
        wait $job
        codes="$codes $?"
    done
    echo "exit$codes"
}
verify() { weir verify plan.json "$@" 2>&1 | tail -n 1; }
peaks() {
    awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' $1
}

for shard in gradients weights; do
    echo "# $shard"
    plan plan.json fp32 5 1f1b --replicas 2,3 --optimizer adamw --shard $shard
    echo "1f1b: $(verify)"
    echo "a device that runs ahead: $(verify --device cpu:queued)"
    echo "clipped: $(verify --clip 0.5)"
    echo "processes, clipped: $(together 5 weir verify plan.json --device cpu:queued --clip 0.5), $(tail -n 1 rank0.txt)"
    plan plan.json fp32 4 gpipe --replicas 3,1 --micro-batches 8 --optimizer momentum --shard $shard
    echo "micro-batches that replicas do not divide: $(verify)"
    for optimizer in lamb adafactor adam8bit; do
        plan plan.json fp32 5 1f1b --replicas 2,3 --optimizer $optimizer --shard $shard
        echo "$optimizer: $(verify --clip 0.5)"
        echo "$optimizer, processes: $(together 5 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
        plan plan.json fp32 4 pipedream --replicas 3,1 --micro-batches 8 --optimizer $optimizer --shard $shard
        echo "$optimizer, without a flush: $(verify --device cpu:queued)"
        plan plan.json fp32 3 1f1b --replicas 2,1 --optimizer $optimizer --shard $shard --host optimizer,activations \
            --window 2
        echo "$optimizer, with the host, a layer ahead: $(verify --device cpu:queued)"
    done
    plan plan.json bf16 3 1f1b --replicas 2,1 --optimizer adamw-master --shard $shard
    echo "bf16: $(verify --device cpu:bf16)"
    for schedule in chimera dualpipe; do
        plan plan.json fp32 4 $schedule --micro-batches 8 --optimizer adamw --shard $shard
        echo "$schedule: $(verify)"
        echo "$schedule, processes: $(together 4 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
    done
    for schedule in pipedream pipedream-2bw; do
        plan plan.json fp32 4 $schedule --replicas 3,1 --micro-batches 8 --optimizer adamw --shard $shard
        echo "$schedule: $(verify)"
        echo "$schedule, processes: $(together 4 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
    done
    memory=128KiB plan plan.json fp32 4 1f1b --replicas 3,1 --optimizer sgd --shard $shard
    echo "$(grep -c 'runs\? again before' said.txt) with recomputation: $(verify)"
    plan plan.json fp32 5 1f1b --replicas 2,3 --optimizer adamw --shard $shard --window 2
    echo "a layer ahead: $(verify --device cpu:queued --clip 0.5)"
    echo "a layer ahead, one thing at a time: $(verify)"
    echo "a layer ahead, processes: $(together 5 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
    memory=128KiB plan plan.json fp32 4 1f1b --replicas 3,1 --optimizer sgd --shard $shard --window 2
    echo "$(grep -c 'runs\? again before' said.txt) with recomputation, a layer ahead: $(verify --device cpu:queued)"
    plan plan.json fp32 3 1f1b --replicas 2,1 --optimizer adamw --shard $shard --host optimizer,activations
    echo "with the host: $(verify)"
    echo "with the host, processes: $(together 3 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
done
plan plan.json fp32 3 1f1b --replicas 2,1 --optimizer adamw --shard optimizer --host optimizer --window 1
echo "the optimizer's state shared on the host, with a window: $(verify)"

echo "# checkpoints"
train() {  # PLAN CHECKPOINTS OPTIONS..
    weir train "$model" --data /usr/share/common-licenses --plan $1.json --checkpoints $2 "${@:3}"
}
for shard in gradients weights; do
    plan $shard.json fp32 4 1f1b --replicas 3,1 --optimizer adamw --shard $shard
    plan $shard-window.json fp32 4 1f1b --replicas 3,1 --optimizer adamw --shard $shard --window 2
    plan $shard-host.json fp32 4 1f1b --replicas 3,1 --optimizer adamw --shard $shard --host optimizer
    train $shard $shard --steps 2 | peaks
    train $shard-host $shard-host --steps 2 | peaks
    train $shard-window $shard-window --steps 2 --device cpu:queued | peaks
done
for other in gradients-host gradients-window weights weights-host weights-window; do
    diff -r -x manifest.json gradients/step-2 $other/step-2 && echo "gradients and $other are alike"
done
cp -r weights processes
together 4 weir train "$model" --data /usr/share/common-licenses --plan weights-host.json --steps 4 --device cpu:queued \
    --checkpoints processes --resume
peaks rank0.txt
train gradients-host gradients --steps 4 --resume >/dev/null 2>&1
diff -r -x manifest.json gradients/step-4 processes/step-4 && echo "gradients and processes are alike"

echo "# refused when it is planned"
plan plan.json fp32 4 chimera --micro-batches 5 --optimizer adamw --shard weights
weir profile "${model/,/,tied,}" -o tied.json >/dev/null
plan plan.json tied 3 1f1b --replicas 2,1 --optimizer adamw --shard gradients --tied apart
