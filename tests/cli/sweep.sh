# `weir sweep` plans for every schedule, says which is worth it and why the others lost, and what it names as best is the plan it writes.
{
    echo "node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000"
    for i in 2 3 4 5 6 7 8 9; do
        echo "node$i -- Linear(l$i) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000"
    done
    for i in 1 2 3 4 5 6 7 8; do printf '\tnode%s -- node%s\n' $i $((i + 1)); done
} > eight.txt
weir import pipedream eight.txt -o profile.json > /dev/null
cluster='2 devices, 16MiB, 10GB/s 10us'
weir sweep profile.json --cluster "$cluster" --optimizer sgd --schedules gpipe,1f1b,zb-h1,interleaved,zb-v,dualpipe,pipedream --micro-batches 2,8 --plan plan.json
echo "exit $?"

echo "# the best plan is a plan"
weir check plan.json --profile profile.json
predicted=$(sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p' plan.json | head -1)
simulated=$(weir simulate plan.json --json | sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p')
[ "$predicted" = "$simulated" ] && echo "as the plan predicts"

echo "# what is suggested, and written, can be run"
weir sweep profile.json --cluster '4 devices, 16MiB, 10GB/s 10us' --optimizer sgd --schedules 1f1b,search --micro-batches 4 --chunks 1 --plan runs.json | tail -1
grep -o '"name": "search"' runs.json

echo "# the same bytes with one thread and with three"
few="--optimizer sgd --schedules 1f1b,zb-v,hanayo --micro-batches 4,8"
weir sweep profile.json --cluster "$cluster" $few --jobs 1 --json > one.json
weir sweep profile.json --cluster "$cluster" $few --jobs 3 --json | cmp - one.json && echo "the same"

echo "# lines, and a batch in samples"
weir sweep profile.json --cluster "$cluster" --optimizer sgd --schedules gpipe,1f1b --global-batch 4 --csv

echo "# memory for some, and for none"
weir sweep profile.json --cluster "$cluster" --memory 9MiB --optimizer sgd --schedules gpipe,1f1b,zb-v --micro-batches 32 --csv | cut -d, -f1,6,7,12,13
weir sweep profile.json --cluster "$cluster" --memory 4MiB --schedules 1f1b,zb-v --micro-batches 8; echo "exit $?"

echo "# Ctrl-C prints what is known"
"$ROOT/tests/cli/signalled.py" INT 500 weir sweep profile.json --cluster "$cluster" --optimizer sgd --schedules gpipe,interleaved --micro-batches "8,$(seq -s, 16384 1024 48000)" --budget 100000000000 --jobs 1 --json > stopped.json
echo "exit $?"; grep -A6 '"schedule": "gpipe"' stopped.json | grep outcome | head -1; tail -2 stopped.json

echo "# refused"
weir sweep profile.json --cluster "$cluster" --schedules 1f1b,zigzag 2>&1 | sed 's/1f1b, .*)/1f1b, ...)/'
weir sweep profile.json --cluster "$cluster" --micro-batches 4,x 2>&1 | head -1
weir sweep profile.json --cluster "$cluster" --micro-batches 4 --global-batch 8 2>&1 | head -1
weir sweep profile.json 2>&1 | head -1; weir sweep profile.json > /dev/null 2>&1; echo "exit $?"
weir sweep profile.json --cluster "$cluster" --window 2 2>&1; echo "exit $?"

echo "# only what an engine runs"
weir sweep profile.json --cluster "$cluster" --optimizer sgd --micro-batches 4 --for pytorch --csv | cut -d, -f1 | sort -u | paste -sd' '
weir sweep profile.json --cluster "$cluster" --optimizer sgd --micro-batches 4 --for threads --csv | cut -d, -f1 | sort -u | paste -sd' '
for schedules in 1f1b,chimera; do
    weir sweep profile.json --cluster "$cluster" --schedules $schedules --micro-batches 4 --for pytorch 2>&1
    echo "exit $?"
done
weir sweep profile.json --cluster "$cluster" --for megaphone 2>&1 | head -1

echo "# the plan of an order that was searched for, run"
weir profile "gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2" -o nano.json >/dev/null
weir sweep nano.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedules search --micro-batches 5 --chunks 1,2 --plan found.json >/dev/null
grep -c '"actions"' found.json
weir verify found.json | tail -n 1
