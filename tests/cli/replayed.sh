# Training where actions are replayed: the same losses as without, with dropout and a rate that changes, in threads and
# in a process for each rank, by a schedule that flushes and by one that does not; and how many actions were.
set -u
model=gpt-nano,width=32,blocks=3,heads=2,sequence=16,micro_batch=2,dropout=0.1
for i in $(seq 4000); do echo "$i and $((i * i))"; done > text.txt
weir profile $model --device cpu -o profile.json > profiled.txt

train() { # DEVICE FILE
    weir train $model --plan plan.json --device "$1" --data text.txt --steps 8 --flush-every 4 > "$2" 2>&1
}
for schedule in 1f1b pipedream; do
    weir partition profile.json --cluster '3 devices, 8GiB, 20GB/s 20us' --schedule $schedule --micro-batches 6 \
        --optimizer adamw -o plan.json > planned.txt
    train cpu:queued plain.txt
    train cpu:queued,graphs graphs.txt
    for rank in 2 1 0; do
        WEIR_RANK=$rank WEIR_RANKS=3 WEIR_RENDEZVOUS=$PWD/meeting.$schedule train cpu:queued,graphs rank$rank.txt &
    done
    wait
    for file in plain graphs rank0; do grep -o '^step .* loss [0-9.]*' $file.txt > $file.losses; done
    wc -l < plain.losses
    cmp plain.losses graphs.losses && cmp plain.losses rank0.losses && echo "$schedule: the same losses"
    grep -c 'actions replayed' plain.txt
    # Without a flush, slots and versions may come in more ways than two passes have seen.
    [ $schedule = 1f1b ] && grep -h 'actions replayed' graphs.txt rank0.txt | tr -s ' '
done
exit 0
