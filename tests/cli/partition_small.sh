# `weir partition` prints a table, says no in a sentence with numbers, and refuses bad requests.
cat > small.txt <<'END'
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node4 -- Linear(c) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=4096.0, parameter_size=2097152.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
END
weir import pipedream small.txt -o profile.json
cluster='2 devices, 16MiB, 10GB/s 10us'
weir partition profile.json --cluster "$cluster" --schedule 1f1b --micro-batches 8 --optimizer sgd -o plan.json
weir simulate plan.json | head -4
weir partition profile.json -c "$cluster" -s 1f1b -m 8 -p 2 --optimizer sgd --json | cmp - plan.json && echo "the same bytes"
weir partition profile.json --cluster "$cluster" --memory 4MiB --schedule gpipe --micro-batches 8 2>&1; echo "exit $?"
weir partition profile.json --cluster "$cluster" --ranks 3 --schedule 1f1b --micro-batches 8 2>&1; echo "exit $?"
weir partition profile.json --cluster "2 devices" --schedule 1f1b --micro-batches 8 2>&1; echo "exit $?"
(weir partition profile.json --cluster "$cluster" --schedule zigzag --micro-batches 8 2>&1; echo "exit $?") | sed 's/1f1b, .*)/1f1b, ...)/'
weir simulate plan.json --schedule pipedream | sed -n 1,3p
(weir simulate plan.json --schedule zigzag 2>&1; echo "exit $?") | sed 's/1f1b, .*)/1f1b, ...)/'
weir check plan.json --profile profile.json
sed 's/"recompute_ns": 0/"recompute_ns": 5/' plan.json > edited.json
weir check edited.json --profile profile.json 2>&1; echo "exit $?"
weir simulate edited.json 2>&1 | sed -n 1,3p
weir simulate edited.json --micro-batches 2 2>&1 | sed -n 1,2p
sed 's/"kept_bytes": [0-9]*/"kept_bytes": 1/' plan.json > bytes.json
weir simulate bytes.json 2>&1; echo "exit $?"

echo "# more than a document can hold"
weir partition profile.json --cluster '2 devices, 16MiB, 10GB/s 9000000s' --schedule 1f1b --micro-batches 8 2>&1; echo "exit $?"
echo "# one device may take less, and so may devices that are nearer; else nothing can"
weir partition profile.json --cluster '2 devices, 64MiB, 10GB/s 9000000s' --schedule 1f1b --micro-batches 8 --fewer | tail -3
weir partition profile.json --cluster '4 devices, 16MiB, 10GB/s 9000000s' --ranks 2 --schedule 1f1b --micro-batches 8 --devices auto 2>&1; echo "exit $?"
weir partition profile.json --cluster '2 nodes x 2 devices, 16MiB, 10GB/s 1us, 10GB/s 9000000s' --ranks 2 --schedule 1f1b --micro-batches 8 --devices auto | tail -3
weir partition profile.json --cluster '2 devices, 64MiB, 1B/s 0us' --schedule 1f1b --micro-batches 200 -o slow.json | tail -1
weir explain slow.json --profile profile.json | sed -n '/^Small/,/^$/p'
weir schedule 1f1b --ranks 2 --micro-batches 2 --format json > order.json
weir simulate order.json --cost 9000000s,1us,1us,0ns 2>&1; echo "exit $?"
weir simulate order.json --cost 1us,1us,1us,0ns --keep 9007199254740991B,1B 2>&1; echo "exit $?"

weir check plan.json --profile profile.json --json 2>&1; echo "exit $?"

echo "# a deadline that passes without a plan is no answer; that a layer fits nowhere is one, however late"
hurry() { weir ${command:-partition} profile.json --cluster "$cluster" --memory ${memory:-4MiB} --micro-batches 8 --optimizer sgd --deadline 1ns "$@" > out 2> said; echo "exit $?: $(grep -o 'the deadline has passed\|layer .* alone needs' said)"; }
memory=5MiB hurry --schedule interleaved
memory=5MiB command=front hurry --schedule interleaved
memory=5MiB command=keep hurry --schedule interleaved --noise 3%
hurry --schedule 1f1b
hurry --schedule 1f1b --json
hurry --schedule 1f1b --replicas auto
command=front hurry --schedule 1f1b
command=keep hurry --schedule 1f1b --noise 3%
hurry --schedule zb-v
