# Replicas that share the optimizer's state (ZeRO 1): bit for bit the sequential run, in threads, in processes and under
# schedules with two copies of each stage; allocated is what was planned; and checkpoints go on with other replicas.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o fp32.json >/dev/null
weir profile "$model" --device cpu:bf16 -o bf16.json >/dev/null

plan() {  # PLAN PROFILE RANKS SCHEDULE OPTIONS..
    weir partition $2.json --cluster "$3 devices, 1GiB, 10GB/s 1us" --schedule $4 --micro-batches 6 "${@:5}" -o $1 \
        >/dev/null
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
peaks() {
    awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' $1
}

for replicas in 2,1 3,1; do
    ranks=$((${replicas/,/+}))
    for optimizer in adam adagrad lars lamb adafactor adam8bit; do  # of the last four whole tensors, or blocks, are one replica's
        plan plan.json fp32 $ranks 1f1b --replicas $replicas --optimizer $optimizer --shard optimizer
        echo "$replicas, $optimizer: $(weir verify plan.json | tail -n 1)"
    done
    for optimizer in sgd momentum adamw; do
        plan plan.json fp32 $ranks 1f1b --replicas $replicas --optimizer $optimizer --shard optimizer
        echo "$replicas, $optimizer: $(weir verify plan.json | tail -n 1)"
        plan plan.json bf16 $ranks 1f1b --replicas $replicas --optimizer $optimizer-master --shard optimizer
        echo "$replicas, $optimizer-master: $(weir verify plan.json --device cpu:bf16 | tail -n 1)"
    done
    plan plan.json fp32 $ranks 1f1b --replicas $replicas --optimizer adamw --shard optimizer
    echo "$replicas, a device that runs ahead: $(weir verify plan.json --device cpu:queued | tail -n 1)"
    echo "$replicas, processes: $(together $ranks weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
    echo "$replicas, clipped: $(weir verify plan.json --clip 0.5 | tail -n 1)"
done
for schedule in chimera dualpipe; do
    plan plan.json fp32 4 $schedule --micro-batches 8 --optimizer adamw --shard optimizer
    echo "$schedule: $(weir verify plan.json | tail -n 1)"
    echo "$schedule, processes: $(together 4 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
done
for schedule in pipedream pipedream-2bw; do
    plan plan.json fp32 3 $schedule --replicas 2,1 --optimizer adamw --shard optimizer
    echo "$schedule: $(weir verify plan.json | tail -n 1)"
    echo "$schedule, processes: $(together 3 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"
done

# Tied layers on different stages, whose gradients are added up over stages as well.
weir profile "${model/,/,tied,}" -o tied.json >/dev/null
plan plan.json tied 3 1f1b --replicas 2,1 --optimizer adamw --shard optimizer --tied apart
echo "tied: $(weir verify plan.json --clip 0.5 | tail -n 1)"
echo "tied, processes: $(together 3 weir verify plan.json --device cpu:queued), $(tail -n 1 rank0.txt)"

# What is allocated is what was planned. Checkpoints hold layers, whoever had what of them, and are those of a plan whose
# replicas share nothing; and a run goes on from them with other replicas.
for replicas in 2 3; do
    plan shared$replicas.json fp32 $((replicas + 1)) 1f1b --replicas $replicas,1 --optimizer adamw --shard optimizer
    plan whole$replicas.json fp32 $((replicas + 1)) 1f1b --replicas $replicas,1 --optimizer adamw
done
train() {  # PLAN CHECKPOINTS OPTIONS..
    weir train "$model" --data /usr/share/common-licenses --plan $1.json --checkpoints $2 "${@:3}"
}
alike() {
    diff -r -x manifest.json $1 $2 && echo "$1 and $2 are alike"
}
train shared3 three --steps 2 | peaks
train whole3 whole --steps 2 >/dev/null
alike whole/step-2 three/step-2
cp -r whole processes
together 3 weir train "$model" --data /usr/share/common-licenses --plan shared2.json --steps 4 --device cpu:queued \
    --checkpoints processes --resume
peaks rank0.txt
train shared2 three --steps 4 --resume >/dev/null 2>&1
train whole2 whole --steps 4 --resume >/dev/null 2>&1
alike whole/step-4 three/step-4
alike whole/step-4 processes/step-4

# So do those of optimizers that update tensors or blocks, whose shares are not even. (Who shares gradients adds them up in
# another order than who does not: of these the ones in processes are as those in threads.)
for optimizer in lars lamb adafactor adam8bit; do
    plan three.json fp32 4 1f1b --replicas 3,1 --optimizer $optimizer --shard optimizer
    plan whole.json fp32 4 1f1b --replicas 3,1 --optimizer $optimizer
    for shard in none optimizer gradients weights; do
        plan two-$shard.json fp32 3 1f1b --replicas 2,1 --optimizer $optimizer --shard $shard
    done
    train three $optimizer --steps 2 | peaks
    train whole $optimizer-whole --steps 2 >/dev/null
    alike $optimizer/step-2 $optimizer-whole/step-2
    cp -r $optimizer $optimizer-gradients
    cp -r $optimizer $optimizer-weights
    train two-optimizer $optimizer --steps 4 --resume 2>/dev/null | peaks
    train two-none $optimizer-whole --steps 4 --resume >/dev/null 2>&1
    alike $optimizer/step-4 $optimizer-whole/step-4
    train two-gradients $optimizer-gradients --steps 4 --resume 2>/dev/null | peaks
    together 3 weir train "$model" --data /usr/share/common-licenses --plan two-weights.json --steps 4 \
        --device cpu:queued --checkpoints $optimizer-weights --resume
    peaks rank0.txt
    alike $optimizer-gradients/step-4 $optimizer-weights/step-4
done

# Killed in the middle: the others end, and name it.
for rank in 0 1 2; do
    WEIR_RANK=$rank WEIR_RANKS=3 WEIR_RENDEZVOUS=$PWD/meet weir train "$model" --data /usr/share/common-licenses \
        --plan shared2.json --steps 100000 --device cpu:queued >rank$rank.txt 2>rank$rank.err &
    pids[$rank]=$!
done
while ! grep -q '^step' rank0.txt; do sleep 0.05; done
kill -9 ${pids[1]}
for rank in 0 2; do
    wait ${pids[$rank]}
    echo "exit $?: $(tail -n 1 rank$rank.err | sed 's/process [0-9]* on [^)]*/process N on HOST/')"
done
