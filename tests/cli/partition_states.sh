# How states are held: more optimizers, sharding, the host, the update, tied layers; each with its cost, or a sentence.
cat > small.txt <<'EOF'
node1 -- Embedding(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=2097152.000
node2 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(c) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=65536.0, parameter_size=1048576.000
node4 -- Linear(d) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=4096.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
EOF
weir import pipedream small.txt -o profile.json
cluster='2 devices, 64MiB, 10GB/s 10us, host 96MiB 20GB/s'
plan() { weir partition profile.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 "$@" 2>&1; echo "exit $?"; }
brief() { plan "$@" | grep -e ' by ' -e '^  *[01] .* of ' -e 'On the host' -e '^An iteration' -e '^weir' -e '^exit' | cut -c 1-132; }
brief --optimizer adam8bit
brief --optimizer adamw-master
brief --optimizer adafactor
brief --optimizer lion
brief --step-rate 1GB/s
brief --step-rate 0B/s
brief --host optimizer
brief --host optimizer --window 1
brief --window 1
brief --host optimizer,activations
brief --host disk
brief --schedule chimera --shard optimizer
brief --shard everything
brief --tied sideways

echo "# a host that is too small, and none"
weir partition profile.json --cluster '2 devices, 64MiB, 10GB/s 10us, host 8MiB 20GB/s' --schedule 1f1b --micro-batches 8 --host optimizer 2>&1; echo "exit $?"
weir partition profile.json --cluster '2 devices, 64MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 --host optimizer 2>&1; echo "exit $?"

echo "# tied layers, which are at both ends"
sed 's/"tied": \[\]/"tied": [[0, 3]]/' profile.json > tied.json
weir partition tied.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 2>&1; echo "exit $?"
weir partition tied.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 --tied apart -o apart.json | grep -e ' by ' -e '^An iteration' | cut -c 1-132
grep -e '"tied_apart"' -e '"step_ns"' apart.json
weir check apart.json --profile tied.json
weir simulate apart.json | sed -n 1,2p
weir partition tied.json --cluster "$cluster" --schedule pipedream --micro-batches 8 --tied apart 2>&1; echo "exit $?"

echo "# a sweep, and a plan by hand"
weir sweep profile.json --cluster "$cluster" --schedules 1f1b,gpipe --micro-batches 8 --host optimizer --json | grep -e '"optimizer' -e '"outcome"'
weir price profile.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 --cuts '[2,2]' --host optimizer | grep -e ' by ' -e 'On the host'
