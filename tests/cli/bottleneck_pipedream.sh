# Plans by PipeDream's own model: searched for, given, written, refused.
exec 2>&1
tab=$'\t'
cat > net.graph.txt <<END
node1 -- Input0 -- forward_compute_time=9.000, backward_compute_time=0.000, activation_size=64.0, parameter_size=0.000
node2 -- Conv2d(3, 8) -- forward_compute_time=4.000, backward_compute_time=8.000, activation_size=2048000.0, parameter_size=2560.000
node3 -- Conv2d(8, 8) -- forward_compute_time=3.000, backward_compute_time=6.000, activation_size=1024000.0, parameter_size=25600.000
node4 -- Conv2d(8, 8) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=1024000.0, parameter_size=25600.000
node5 -- Concat(1) -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=2048000.0, parameter_size=0.000
node6 -- Linear(in_features=16, out_features=9) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=256.0, parameter_size=25600000.000
${tab}node1 -- node2
${tab}node2 -- node3
${tab}node2 -- node4
${tab}node3 -- node5
${tab}node4 -- node5
${tab}node5 -- node6
END
weir import pipedream net.graph.txt -o net.json
four='4 devices, 16GB, 1GB/s 0us'
echo "--- searched"
weir bottleneck net.json --model pipedream --cluster "$four" -o plan.json
echo "--- without replicas, with what passes"
weir bottleneck net.json --model pipedream --cluster "3 devices, 16GB, 100MB/s 0us" --straight --activation-traffic
echo "--- in little memory, on fewer"
weir bottleneck net.json --model pipedream --cluster "$four" --memory 2MB --heed-memory --fewer
echo "--- servers"
weir bottleneck net.json --model pipedream --cluster "2 nodes x 2 devices, 16GB, 10GB/s 0us, 1GB/s 0us" -o servers.json
echo "--- the plan is one"
grep -E '"(objective|value_ns|lower_bound_ns|proved)"' plan.json
weir simulate plan.json > /dev/null && echo runs
weir bottleneck net.json --model pipedream --cluster "$four" --plan plan.json | tail -1
weir bottleneck net.json --model pipedream --cluster "2 nodes x 2 devices, 16GB, 10GB/s 0us, 1GB/s 0us" --plan servers.json | tail -1
echo "--- given"
weir bottleneck net.json --model pipedream --cluster "$four" --cuts '[5,1]' --replicas '[3,1]'
echo "--- given, on servers"
two='2 nodes x 2 devices, 16GB, 10GB/s 0us, 1GB/s 0us'
weir bottleneck net.json --model pipedream --cluster "$two" --cuts '[6]' --replicas '[4]'
weir bottleneck net.json --model pipedream --cluster "$two" --cuts '[5,1]' --replicas '[2,2]' | tail -1
weir bottleneck net.json --model pipedream --cluster "$two" --cuts '[5,1]' --replicas '[3,1]'; echo "exit $?"
echo "--- given, and written"
claim() { sed -n '/"certificate"/,$p' "$1" | grep -E '"(objective|value_ns|lower_bound_ns|gap|proved|stopped)"'; }
price() { weir bottleneck net.json --model pipedream "$@"; }
price --cluster "$four" --cuts '[5,1]' --replicas '[3,1]' -o priced.json | tail -1
claim priced.json
price --cluster "$four" --cuts '[5,1]' --replicas '[3,1]' --json | cmp - priced.json && echo "the same"
weir check priced.json --profile net.json | head -1
weir simulate priced.json > /dev/null && echo runs
price --cluster "$four" --plan priced.json -o again.json > /dev/null && cmp priced.json again.json && echo "the same"
price --cluster "$four" --plan plan.json --json | cmp - plan.json && echo "the best, and proved"
echo "--- and explained, once it is priced by time"
weir explain priced.json --profile net.json; echo "exit $?"
weir price net.json --plan priced.json -o timed.json | tail -1
weir explain timed.json --profile net.json | head -1
echo "--- given and written, of fewer machines than a search may take"
price --cluster "$four" --cuts '[3,3]' -o fewer.json | tail -1
claim fewer.json
sed 's/parameter_size=0.000/parameter_size=2560.000/' net.graph.txt > heavy.graph.txt
weir import pipedream heavy.graph.txt -o heavy.json > /dev/null
weir bottleneck heavy.json --model pipedream --cluster "9 devices, 16GB, 1kB/s 0us" --cuts '[3,3]' -o better.json | tail -1
claim better.json
price --cluster "9 devices, 16GB, 1GB/s 0us" --straight --cuts '[3,3]' -o none.json | tail -1
claim none.json
echo "--- refused"
ask() { weir bottleneck net.json "$@" 2>&1 | head -1; }
ask --model pipedream
ask --straight --cluster "$four" --schedule 1f1b --micro-batches 4
ask --model best --cluster "$four"
ask --model pipedream --cluster "$four" --schedule 1f1b
ask --model pipedream --cluster "$four" --replicas '[1,2]'
ask --model pipedream --cluster "$four" --cuts '[5,1]' --replicas '[4]'
ask --model pipedream --cluster "$four" --cuts '[5,2]'
ask --model pipedream --cluster "$four" --cuts '[5,0,1]'
ask --model pipedream --cluster "$four" --cuts '[5,1]' --replicas '[4,1]'
ask --model pipedream --cluster "9 devices, 16GB, 1GB/s 0us" --straight
ask --model pipedream --cluster "2 nodes x 3 devices, 16GB, 10GB/s 0us, 1GB/s 0us" --ranks 4
ask --model pipedream --cluster "$four" --memory 1B --heed-memory --straight
echo "--- of another graph"
sed 's/"node3[^"]*"/"other"/' net.json > renamed.json
weir bottleneck renamed.json --model pipedream --cluster "$four" --plan plan.json; echo "exit $?"
echo "--- made by hand, and read as without --model"
echo '{"stages": [{"layers": 5, "devices": [0, 1, 2]}, {"layers": ["node6.Linear"], "devices": [3]}]}' > hand.json
weir bottleneck net.json --model pipedream --cluster "$four" --plan hand.json | tail -1
weir price net.json --schedule pipedream --micro-batches 4 --cluster "$four" --plan hand.json | tail -1
echo '{"stages": [{"layers": 3}, {"layers": 3}], "schedule": {"name": "1f1b", "micro_batches": 8}}' > hand.json
weir bottleneck net.json --model pipedream --cluster "$four" --fewer --plan hand.json | tail -1
weir bottleneck net.json --model max-load --cluster "$four" --plan hand.json | tail -1
weir bottleneck net.json --model tps --cluster "$four" --plan hand.json | tail -1
echo '{"stages": [{"layers": 5}]}' > hand.json
weir bottleneck net.json --model pipedream --cluster "$four" --plan hand.json; echo "exit $?"
weir price net.json --schedule pipedream --micro-batches 4 --cluster "1 device, 16GB, 1GB/s 0us" --plan hand.json; echo "exit $?"
