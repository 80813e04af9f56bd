# Plans by dnn-partitioning's and Piper's own models, of the examples of their pages.
exec 2>&1
example() { sed -n '/^```json$/,/^```$/p' "$ROOT/docs/formats/$1.md" | grep -v '^```'; }
for format in dnn-partitioning piper; do
    example "$format" > "$format.json"
    weir import "$format" "$format.json" -o "$format.profile.json" --cluster-output "$format.cluster.json" > /dev/null
done
echo "--- max-load, two accelerators and a CPU"
weir bottleneck dnn-partitioning.profile.json --model max-load --cluster dnn-partitioning.cluster.json
echo "--- as many from a synopsis"
weir bottleneck dnn-partitioning.profile.json --model max-load --cluster "2 devices, 16GB, 1GB/s 0us" --cpus 1 | tail -1
echo "--- one byte"
weir bottleneck dnn-partitioning.profile.json --model max-load --cluster "2 devices, 1B, 1GB/s 0us"; echo "exit $?"
echo "--- a plan that was given"
weir bottleneck dnn-partitioning.profile.json --model max-load --cluster "2 devices, 16GB, 1GB/s 0us" --cuts '[1,2]'
weir bottleneck dnn-partitioning.profile.json --model max-load --cluster "2 devices, 16GB, 1GB/s 0us" --cuts '[1,2]' --json | sed -n '/"certificate"/,$p'
echo "--- tps, four devices"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --micro-batches 64
echo "--- one replica, little memory: split over two"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --micro-batches 64 --straight --memory 12000B
echo "--- as a document, and priced anew"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --micro-batches 64 --straight --memory 12000B -o loads.json > /dev/null
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --straight --memory 12000B --plan loads.json | tail -1
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --straight --memory 12000B --plan loads.json --json | cmp - loads.json && echo "the same"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json -o tps.json > /dev/null
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --plan tps.json --json | cmp - tps.json && echo "the same"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --straight --memory 4000B --plan loads.json; echo "exit $?"
weir bottleneck piper.profile.json --model max-load --cluster piper.cluster.json --plan loads.json; echo "exit $?"
echo "--- one byte"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --memory 1B; echo "exit $?"
echo "--- no time"
weir bottleneck dnn-partitioning.profile.json --model max-load --cluster dnn-partitioning.cluster.json --deadline 1ns; echo "exit $?"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --deadline 1ns; echo "exit $?"
weir bottleneck piper.profile.json --model pipedream --cluster piper.cluster.json --deadline 1ns; echo "exit $?"
weir bottleneck piper.profile.json --model tps --cluster piper.cluster.json --micro-batches 64 --deadline 600s | tail -1
