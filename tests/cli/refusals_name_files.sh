# A refusal of what stands in a file names the file, also where it is found long after reading.
exec 2>&1
try() { "$@"; echo "exit $?"; }
page() { awk '/^```json/ { wanted = 1; next } /^```/ { wanted = 0 } wanted' "$ROOT/docs/formats/$1.md"; }
page profile > profile.json
cluster() {
    echo "{\"format\": \"weir.cluster\", \"version\": 1, \"devices\": ["
    echo "{\"name\": \"a\", \"memory_bytes\": 1073741824, \"speed_permille\": 1000},"
    echo "{\"name\": \"b\", \"memory_bytes\": 1073741824, \"speed_permille\": $1}],"
    echo "\"levels\": [{\"size\": 2, \"latency_ns\": 1000, \"bytes_per_second\": 1000000000}]}"
}
cluster 1000 > two.json
cluster 500 > slow.json
weir partition profile.json -c two.json -s 1f1b -m 4 --tied apart -o plan.json > /dev/null

echo "# profile and cluster, of which either may be wrong"
try weir bottleneck profile.json --model pipedream -m 4 -c slow.json
try weir bottleneck - --model pipedream -m 4 -c slow.json < profile.json
sed 's/"forward_ns": 15000/"forward_ns": 4000000000000000/' profile.json > long.json
try weir partition long.json -c two.json -s 1f1b -m 4 --tied apart
try weir partition long.json -c '2 devices, 1GiB, 10GB/s 5us' -s 1f1b -m 4 --tied apart

echo "# a plan"
sed 's/"chunks": 1/"chunks": 2/' plan.json > chunks.json
try weir keep profile.json --plan chunks.json
sed 's/"head"\]/"tail"]/' plan.json > renamed.json
try weir price profile.json --plan renamed.json
sed 's/"model": "tiny"/"model": "mlp"/' plan.json > other.json
try weir verify other.json
try weir simulate chunks.json

echo "# a schedule"
weir schedule 1f1b -p 2 -m 1 --format json > schedule.json
sed 's/"1F0 1B0 1STEP"/"1STEP"/' schedule.json > idle.json
try weir schedule idle.json --format csv
