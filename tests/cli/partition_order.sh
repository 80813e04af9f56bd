# Two branches whose layers stand in turns: an order in which one branch ends first is cheaper to cut.
cat > graph.txt <<'END'
node1 -- Input0 -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000000.000, parameter_size=0.000
node2 -- Conv -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=40000000.000, parameter_size=1000.000
node3 -- Conv -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=40000000.000, parameter_size=1000.000
node4 -- Conv -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=1000000.000, parameter_size=1000.000
node5 -- Conv -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=1000000.000, parameter_size=1000.000
node6 -- Add -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000000.000, parameter_size=0.000
	node1 -- node2
	node1 -- node3
	node2 -- node4
	node3 -- node5
	node4 -- node6
	node5 -- node6
END
weir import pipedream graph.txt -o profile.json > /dev/null
weir partition profile.json --cluster "2 devices, 16GiB, 12GB/s 5us" --schedule 1f1b --micro-batches 8 -o plan.json; echo "exit $?"
grep order plan.json
weir check plan.json --profile profile.json; echo "exit $?"
sed 's/\[0, 1, 3, 2, 4, 5\]/[0, 3, 1, 2, 4, 5]/' plan.json > other.json; weir check other.json --profile profile.json 2>&1; echo "exit $?"
weir simulate plan.json --width 60 > /dev/null; echo "exit $?"

echo "# in the order that the profile has, which other frameworks know"
how=(--cluster "2 devices, 16GiB, 12GB/s 5us" --micro-batches 8)
weir export torchgpipe plan.json 2>&1 > /dev/null; echo "exit $?"
weir partition profile.json "${how[@]}" --schedule gpipe -o gpipe.json > /dev/null
weir export torchgpipe gpipe.json 2>&1; echo "exit $?"
weir partition profile.json "${how[@]}" --schedule gpipe --own-order -o own.json | tail -n 2; echo "exit $?"
weir export torchgpipe own.json 2> /dev/null | grep balance
weir price profile.json --plan own.json | tail -n 1
weir price profile.json --plan own.json --own-order | tail -n 1
weir price profile.json "${how[@]}" --schedule gpipe --cuts 2,4 --own-order | tail -n 1
weir sweep profile.json "${how[@]}" --schedules gpipe --own-order --plan swept.json > /dev/null
weir export torchgpipe swept.json 2> /dev/null | grep balance
weir partition profile.json --cluster "2 devices, 30MB, 12GB/s 5us" --schedule gpipe --micro-batches 8 --own-order 2>&1 |
    head -n 1 | cut -c 1-110
