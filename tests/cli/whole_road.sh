# The whole road with a model small enough for a test: profile, partition under a memory limit that forces
# recomputation, simulate, verify, train; times differ from run to run, what must hold does not.
set -e
model=gpt-nano,width=32,blocks=2,heads=2,sequence=32
weir profile $model -o profile.json > profile.txt
for schedule in gpipe 1f1b pipedream; do
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 20us' --schedule $schedule --micro-batches 4 \
        --memory 860KiB -o $schedule.json > $schedule.txt
    weir simulate $schedule.json --json | grep -c '"format": "weir.simulation"'
    weir verify $schedule.json --steps 3 | tail -1
    weir train $model --plan $schedule.json --data /usr/share/common-licenses --steps 6 --flush-every 2 \
        --out $schedule.out > $schedule.train
    grep -c '^step' $schedule.train
    # Allocated is what was planned, to the byte.
    awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' \
        $schedule.train
    ls $schedule.out
done
weir train $model --plan 1f1b.json --data /usr/share/common-licenses --steps 2 --beat 3 > /dev/null 2> no.txt || echo "exit $?"
grep -c 'than the order-1 model' no.txt
weir train gpt-nano --plan 1f1b.json --data /usr/share/common-licenses 2>&1 || echo "exit $?"
weir train $model --plan 1f1b.json --data /nonexistent 2>&1 || echo "exit $?"
