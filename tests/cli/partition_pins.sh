# `weir partition --pin` keeps layers on stages, or says why it cannot; a search that is interrupted leaves the best plan so far.
chain() {  # of so many layers, of uneven times
    echo "node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000"
    for i in $(seq 2 "$1"); do
        echo "node$i -- Linear(l$i) -- forward_compute_time=$((1 + i * i % 7)).000, backward_compute_time=$((2 + i * i % 11)).000, activation_size=65536.0, parameter_size=1048576.000"
    done
    for i in $(seq 1 $(($1 - 1))); do printf '\tnode%s -- node%s\n' "$i" $((i + 1)); done
}
chain 9 > nine.txt
weir import pipedream nine.txt -o nine.json > /dev/null
plan() { weir partition nine.json --cluster '2 devices, 1GiB, 10GB/s 10us' --micro-batches 8 --optimizer sgd "$@"; }
stages() { sed -n 's/.*"layers": \[\(.*\)\],*/\1/p'; }
plan --schedule 1f1b --json | stages
echo "# pinned"
plan --schedule 1f1b --pin node3=1 --json | stages
plan --schedule 1f1b --pin node8=0 --pin node9=1 --json | stages
plan --schedule interleaved --pin node3=1 --pin node7=1 --json | stages
echo "# what cannot be"
plan --schedule 1f1b --pin node8=0 --pin node3=1 2>&1; echo "exit $?"
plan --schedule 1f1b --pin node3=2 2>&1; echo "exit $?"
plan --schedule 1f1b --pin nobody=1 2>&1; echo "exit $?"
plan --schedule 1f1b --pin node3=x 2>&1; echo "exit $?"
plan --schedule 1f1b --pin node3 2>&1 | head -1

echo "# interrupted"
chain 400 > long.txt
weir import pipedream long.txt -o long.json > /dev/null
"$ROOT/tests/cli/signalled.py" INT 2000 weir partition long.json --cluster '8 devices, 4GiB, 1GB/s 10us' --schedule pipedream --micro-batches 9 --optimizer sgd --budget 1000000000000 -o stopped.json > table.txt
echo "exit $?"
grep -o '"stopped": "interrupted"' stopped.json
weir check stopped.json --profile long.json | tail -1

keep() { weir keep nine.json "$@"; }
echo "# kept, if its layers are where they must be"
plan --schedule 1f1b --pin node3=1 -o pinned.json > /dev/null
keep --pin node3=1 --plan pinned.json | tail -1
keep --pin node3=0 --plan pinned.json | tail -1
keep --plan pinned.json --pin node3=1 --noise 3% --draws 5 | tail -1
