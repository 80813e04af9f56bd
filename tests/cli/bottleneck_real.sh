# Piper's own input on more machines than it was published for; with a number of micro-batches that has many divisors.
data=$ROOT/../shared/data/partition/piper/bert32a100.json
if [ ! -f "$data" ]; then
    echo '# skip: the real profiles are not here (shared/data beside the project)'
    exit 77
fi
weir import piper "$data" -o profile.json > /dev/null
for machines in 512 1024 2048; do
    for micro_batches in 1920 2048; do
        echo "--- $machines machines, $micro_batches micro-batches"
        weir bottleneck profile.json --model tps --cluster "$machines devices, 8GiB, 25GB/s 0us" \
            --micro-batches $micro_batches | tail -1
    done
done
