# Gradients clipped by their global norm: the bits of a sequential run on threads, processes and devices, with tied layers
# on different stages; refused where no norm is known; a limit that nothing reaches changes nothing.
model="gpt-nano,tied,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
plan() {  # PLAN SCHEDULE OPTIONS OF WEIR PARTITION..
    weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule $2 --micro-batches 4 --optimizer adamw \
        -o $1 "${@:3}" >/dev/null
}
for schedule in gpipe 1f1b zb-v chimera; do
    plan $schedule.json $schedule --tied apart
    echo "$schedule: threads $(weir verify $schedule.json --clip 0.5 | tail -n 1)"
    echo "$schedule: devices $(weir verify $schedule.json --clip 0.5 --device cpu:queued,cpu:queued 2>/dev/null | tail -n 1)"
done
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify zb-v.json --clip 0.5 --device cpu:queued 2>/dev/null >rank$rank.txt &
done
wait
echo "zb-v: processes $(tail -n 1 rank0.txt)"

weir profile "${model/,tied/}" -o profile.json >/dev/null
plan pipedream.json pipedream
weir verify pipedream.json --clip 0.5 2>&1 || echo "exit $?"
weir verify 1f1b.json --clip 0 2>&1 || echo "exit $?"

seq 20000 > data.txt
losses() {  # OPTIONS OF WEIR TRAIN..
    weir train "$model" --plan 1f1b.json --data data.txt --steps 3 "$@" | grep -o "^step.*loss [0-9.]*"
}
losses > plain.txt
losses --clip 1000 | cmp - plain.txt && echo "a high limit changes nothing"
losses --clip 0.1 | cmp -s - plain.txt || echo "a low one does"
weir train "$model" --plan 1f1b.json --data data.txt --steps 3 --clip 0.1 --checkpoints kept >/dev/null
grep '"clip"' kept/step-3/manifest.json
weir train "$model" --plan 1f1b.json --data data.txt --steps 4 --clip 0.2 --checkpoints kept --resume 2>&1 | grep clip
