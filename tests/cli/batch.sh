# Iterations of so many samples, which the last micro-batch need not be filled by: the bits of a sequential run on threads,
# processes and devices, with replicas, tied layers apart and clipping; kept in checkpoints; refused where it cannot be.
model="gpt-nano,tied,width=16,blocks=3,heads=2,sequence=16,micro_batch=3"
weir profile "$model" -o profile.json >/dev/null
plan() {  # PLAN SCHEDULE OPTIONS OF WEIR PARTITION..
    weir partition profile.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule $2 --micro-batches 4 --optimizer adamw \
        -o $1 --ranks 2 "${@:3}" >/dev/null
}
for schedule in gpipe 1f1b zb-v chimera; do
    plan $schedule.json $schedule --tied apart
    for batch in 10 12; do
        echo "$schedule, $batch: threads $(weir verify $schedule.json --batch $batch --clip 0.5 | tail -n 1)"
    done
    echo "$schedule: devices $(weir verify $schedule.json --batch 11 --device cpu:queued,cpu:queued 2>/dev/null | tail -n 1)"
done
weir partition profile.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 --optimizer adamw \
    --tied apart --replicas 2,1 --shard optimizer -o replicas.json >/dev/null
echo "replicas: $(weir verify replicas.json --batch 10 | tail -n 1)"
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify zb-v.json --batch 10 --device cpu:queued 2>/dev/null >rank$rank.txt &
done
wait
echo "zb-v: processes $(tail -n 1 rank0.txt)"
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify zb-v.json --batch $((10 + rank)) --device cpu:queued 2>&1 | grep -o '^.*--batch.*' >rank$rank.txt &
done
wait
cat rank0.txt rank1.txt | sort -u

for batch in 13 9 0; do
    weir verify 1f1b.json --batch $batch 2>&1 || echo "exit $?"
done
weir profile "${model/,tied/}" -o profile.json >/dev/null
plan pipedream.json pipedream
weir verify pipedream.json --batch 10 2>&1 || echo "exit $?"

seq 20000 > data.txt
losses() {  # OPTIONS OF WEIR TRAIN..
    weir train "$model" --plan 1f1b.json --data data.txt --steps 4 "$@" | grep -o "^step.*loss [0-9.]*"
}
losses > full.txt
losses --batch 12 | cmp - full.txt && echo "as many as there is room for: the same"
losses --batch 10 > uneven.txt
cmp -s uneven.txt full.txt || echo "fewer: others"
weir train "$model" --plan 1f1b.json --data data.txt --steps 2 --batch 10 --checkpoints kept >/dev/null
grep -e '"batch"' kept/step-2/manifest.json
weir train "$model" --plan 1f1b.json --data data.txt --steps 4 --batch 12 --checkpoints kept --resume 2>&1 | grep -e "--batch"
