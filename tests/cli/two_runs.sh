# Two runs of one user on one machine at a time: each has its own ranks, or is refused.
model="gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 -o plan.json >/dev/null
train() {  # SEED
    exec timeout -k 5 300 weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 12 --every 12 \
        --seed "$1" --device cpu:queued
}
for run in 1 2; do
    (train $run --device cpu) >alone$run.txt
done

rank() {  # LAUNCHER RUN RANK: with the variables that the launcher sets
    case $1 in
    Slurm)
        export SLURM_PROCID=$3 SLURM_NTASKS=2 SLURM_LOCALID=$3 SLURM_STEP_NODELIST=here SLURM_JOB_ID=$$ SLURM_STEP_ID=$2 ;;
    torchrun)
        export RANK=$3 WORLD_SIZE=2 LOCAL_RANK=$3 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
        export TORCHELASTIC_RUN_ID=$$-$2 ;;
    "a secret of both")
        export SLURM_PROCID=$3 SLURM_NTASKS=2 SLURM_LOCALID=$3 SLURM_STEP_NODELIST=here SLURM_JOB_ID=$$-$2 SLURM_STEP_ID=0
        export WEIR_SECRET=0123456789abcdef0123456789abcdef ;;
    esac
    train $2
}
same() {  # NAME CODES: whether each run has computed what it computes alone
    local run
    for run in 1 2; do
        cmp <(grep '^held-out' alone$run.txt) <(grep '^held-out' run$run.0.txt) || cat run$run.*.txt
    done
    echo "$1: exit$2"
}
for launcher in Slurm torchrun "a secret of both"; do
    pids=() codes=""
    for n in 0 1; do
        for run in 1 2; do
            rank "$launcher" $run $n >run$run.$n.txt 2>&1 &
            pids+=($!)
        done
    done
    for pid in "${pids[@]}"; do
        wait $pid
        codes="$codes $?"
    done
    same "$launcher" "$codes"
done

# Of whom nobody says where they meet.
WEIR_RANK=0 WEIR_RANKS=2 weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"
RANK=1 WORLD_SIZE=2 weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"
WEIR_PLUGINS=none PMI_RANK=0 PMI_SIZE=2 weir verify plan.json --device cpu:queued 2>&1 || echo "exit $?"
