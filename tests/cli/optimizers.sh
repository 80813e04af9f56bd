# Every optimizer by the bits of a sequential run: over schedules of each kind, with tied layers on different stages,
# clipped, on devices that run ahead; and a run that was ended goes on with the bits of one that was not.
model="gpt-nano,tied,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o tied.json &>/dev/null
weir profile "${model/,tied/}" -o plain.json &>/dev/null
seq 20000 > data.txt
plan() {  # PROFILE SCHEDULE OPTIMIZER OPTIONS OF WEIR PARTITION..
    weir partition $1.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule $2 --micro-batches 4 --optimizer $3 \
        -o $3-$2.json "${@:4}" &>/dev/null
}
alike() {  # PLAN OPTIONS OF WEIR VERIFY..
    weir verify "$@" >verified.txt 2>&1 && grep -q "bit for bit\|no bit" verified.txt || { cat verified.txt; false; }
}
losses() {  # PLAN STEPS OPTIONS OF WEIR TRAIN..
    weir train "${model/,tied/}" --plan $1 --data data.txt --steps $2 --flush-every 2 "${@:3}" 2>&1
}
for optimizer in sgd momentum adagrad adam adamw lars lamb adafactor adam8bit; do
    line="$optimizer:"
    for schedule in gpipe zb-v chimera; do
        plan tied $schedule $optimizer --tied apart
        alike $optimizer-$schedule.json --clip 0.5 && line="$line $schedule"
    done
    alike $optimizer-chimera.json --clip 0.5 --device cpu:queued,cpu:queued && line="$line on devices"
    for schedule in pipedream pipedream-2bw; do
        plan plain $schedule $optimizer
        alike $optimizer-$schedule.json && line="$line $schedule"
    done
    losses $optimizer-pipedream.json 8 --checkpoints whole --save-every 8 &>/dev/null
    losses $optimizer-pipedream.json 8 --checkpoints ended --save-every 4 --keep 2 &>/dev/null
    rm -r ended/step-8
    losses $optimizer-pipedream.json 8 --checkpoints ended --save-every 4 --resume &>/dev/null
    (cd whole/step-8 && sha256sum *.safetensors) > hashes.txt
    (cd ended/step-8 && sha256sum -c --quiet ../../hashes.txt) && line="$line resumed"
    echo "$line"
    rm -r whole ended
done
