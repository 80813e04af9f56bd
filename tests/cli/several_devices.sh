# A device for each rank, all in one process: the bits of a sequential run, and who is wrong is told.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
plan() {  # DEVICES SCHEDULE
    weir partition profile.json --cluster "$1 devices, 1GiB, 10GB/s 1us" --schedule $2 --micro-batches 8 -o plan.json >/dev/null
}
said() {
    "$@" 2>&1
    echo "exit $?"
}

for schedule in gpipe 1f1b pipedream interleaved zb-v chimera dualpipev; do
    plan 2 $schedule
    echo "$schedule: $(said weir verify plan.json --device cpu:queued,cpu:queued | tail -n 2 | paste -sd ,)"
done
weir verify plan.json --device cpu:queued,cpu:queued 2>&1 >/dev/null
plan 3 1f1b
weir verify plan.json --device cpu:queued,cpu:queued,cpu:queued 2>&1 >/dev/null  # how messages go
said weir verify plan.json --device cpu:queued,avx2,cpu:queued,avx2,cpu:queued,avx2 | tail -n 2

# Training: allocated is what was planned, and the held-out text is judged once.
said weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 4 --beat 0.1 \
    --device cpu:queued,cpu:queued,cpu:queued >out.txt
grep -c '^step' out.txt
awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' out.txt
grep -c 'which --beat wants beaten' out.txt
tail -n 1 out.txt

said weir verify plan.json --device cpu:queued,cpu:queued
said weir verify plan.json --device cpu:queued,cpu,cpu:queued
RANK=0 WORLD_SIZE=3 WEIR_RENDEZVOUS=$PWD/meet said weir verify plan.json --device cpu:queued,cpu:queued,cpu:queued
