# A model with skip connections: profiled with its edges, planned, and run with the bits of a sequential run: by all kinds of
# schedules, with layers run again, replicas and processes; trained, gone on with by another plan, and measured.
model="mlp-unet,width=16,blocks=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null 2>&1
grep -c '"edges"' profile.json
plan() {  # PLAN RANKS SCHEDULE MEMORY OPTIONS OF WEIR PARTITION..
    weir partition profile.json --cluster "$2 devices, $4, 10GB/s 1us" --schedule $3 --micro-batches 6 -o $1 "${@:5}" >/dev/null 2>&1
}
for schedule in gpipe 1f1b interleaved zb-h1 zb-v chimera pipedream pipedream-2bw; do
    plan $schedule.json 2 $schedule 1GiB
    echo "$schedule: $(weir verify $schedule.json --steps 2 | tail -n 1)"
done
plan six.json 6 1f1b 1GiB
echo "six stages: $(weir verify six.json | tail -n 1)"
plan replicas.json 4 1f1b 1GiB --replicas 2,1,1
echo "replicas: $(weir verify replicas.json --clip 0.5 | tail -n 1)"

weir price profile.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule zb-h1 --micro-batches 6 --cuts "[4,4,4]" \
    --recompute "[4,4,0]" -o again.json >/dev/null 2>price.txt || cat price.txt
echo "run again: $(weir verify again.json --steps 2 | tail -n 1)"
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify zb-v.json --device cpu:queued 2>/dev/null >rank$rank.txt &
done
wait
echo "processes: $(tail -n 1 rank0.txt)"

seq 20000 > data.txt
train() {  # PLAN STEPS OPTIONS OF WEIR TRAIN..
    weir train "$model" --plan $1 --data data.txt --steps $2 --checkpoints kept "${@:3}" 2>&1
}
train 1f1b.json 6 | grep -o "^step.*loss [0-9.]*" | tail -n 1 > straight.txt
rm -r kept
train again.json 6 --save-every 3 >/dev/null
rm -r kept/step-6
train 1f1b.json 6 --resume | grep -o "^step.*loss [0-9.]*" | tail -n 1 | cmp - straight.txt && echo "gone on with by another plan"
weir eval "$model" --checkpoint kept --data data.txt 2>&1 | sed 's/[0-9][0-9.]*/N/g' | tail -n 1
