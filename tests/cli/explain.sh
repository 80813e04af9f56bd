# `weir explain` says what binds, where the time goes and what would help, and what it says would help does when it is planned.
cat > small.txt <<'END'
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node4 -- Linear(c) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=4096.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
END
weir import pipedream small.txt -o profile.json > /dev/null
weir partition profile.json --cluster '2 devices, 4700KiB, 10GB/s 10us' --schedule gpipe --micro-batches 8 --optimizer sgd -o plan.json | tail -1
weir explain plan.json --profile profile.json; echo "exit $?"

echo "# as it was said: 1f1b, 16 micro-batches"
weir partition profile.json --cluster '2 devices, 4700KiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --optimizer sgd --json | grep -m1 iteration_ns
weir partition profile.json --cluster '2 devices, 4700KiB, 10GB/s 10us' --schedule gpipe --micro-batches 16 --optimizer sgd --json | grep -m1 iteration_ns

echo "# the document, the same each time"
weir explain plan.json --profile profile.json --json -o one.json
weir explain plan.json --profile profile.json --json | cmp - one.json && head -3 one.json

echo "# refused"
sed 's/"forward_ns": 2000000/"forward_ns": 2000001/' plan.json > edited.json
weir explain edited.json --profile profile.json 2>&1; echo "exit $?"
weir explain plan.json 2>&1 | head -1
weir explain plan.json --profile plan.json 2>&1; echo "exit $?"
weir explain plan.json --profile profile.json --budget 0 2>&1 | head -1
