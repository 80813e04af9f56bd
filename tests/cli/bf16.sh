# Training in bf16 on the twin of bf16: profile, plan with fp32 copies of the weights, verify, train; and what is refused.
set -e
model=gpt-nano,width=32,blocks=2,heads=2,sequence=32
weir profile $model --device cpu:bf16 -o profile.json > profile.txt
grep '"dtype"' profile.json
plan() { weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 20us' --micro-batches 4 "$@" > plan.txt; }
for schedule in 1f1b zb-h1 pipedream; do
    plan --schedule $schedule --optimizer adamw-master -o $schedule.json
    weir verify $schedule.json --device cpu:bf16 --steps 3 | tail -1
    weir train $model --plan $schedule.json --device cpu:bf16 --data /usr/share/common-licenses --steps 20 \
        --flush-every 4 --rate 0.01 > $schedule.train
    # Allocated is what was planned, to the byte, and the loss falls.
    awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ } END { print n - bad " peaks agree" }' \
        $schedule.train
    grep '^step' $schedule.train | awk '{ for (i = 1; i < NF; i++) if ($i ~ /^loss/) last = $(i + 1); if (NR == 1) first = last }
        END { print (last < first - 0.3 ? "the loss falls" : "the loss does not fall: " first " to " last) }'
done
grep -c '"optimizer": "adamw-master"' 1f1b.json
weir verify 1f1b.json 2>&1 || echo "exit $?"
plan --schedule 1f1b --optimizer adamw -o plain.json
weir verify plain.json --device cpu:bf16 2>&1 || echo "exit $?"
# Without AMX and avx512_bf16, as on a processor that has neither, products are computed in fp32.
export ONEDNN_MAX_CPU_ISA=AVX2
weir profile $model --device cpu:bf16 | sed -n '1s/.*\(bf16 by [a-z0-9]*\).*/\1/p'
weir verify 1f1b.json --device cpu:bf16 --steps 3 | tail -1
