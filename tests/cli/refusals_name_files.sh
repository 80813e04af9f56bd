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

echo "# a plan beside the profile of another one"
sed 's/"model": "tiny"/"model": "big"/' profile.json > big.json
sed 's/"forward_ns": 15000/"forward_ns": 15001/' profile.json > newer.json
for other in big.json newer.json; do
    try weir export deepspeed plan.json --profile $other
done 2>&1 | sed 's/[0-9a-f]\{32\}/HASH/g'
sed 's/"name": "head"/"name": "tail"/' profile.json > tail.json
try weir price tail.json --plan plan.json 2>&1 | sed 's/[0-9a-f]\{32\}/HASH/g'

echo "# costs"
page costs > costs.json
weir schedule 1f1b -p 4 -m 8 --format json > four.json
try weir schedule ./four.json --cost costs.json --lower timed
sed 's/"forward_ns": [0-9]*/"forward_ns": 9007199254740991/' costs.json > dear.json
weir schedule 1f1b -p 2 -m 4 --format json > two_ranks.json
try weir simulate two_ranks.json --cost dear.json
try weir simulate two_ranks.json --cost 9007199254740991,1,1,1

echo "# a model's config.json, the device, or an option"
cat > config.json <<'CONFIG'
{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
 "vocab_size": 32000, "intermediate_size": 11008, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "hidden_act": "silu"}
CONFIG
page device > device.json
sed 's/"bytes_per_second": [0-9]*/"bytes_per_second": 1/' device.json > slow_device.json
name=$(sed -n 's/.*"name": "\([^"]*\)".*/\1/p' device.json | head -n 1)
for of in "estimate config.json" "sweep --config config.json --devices 8 --global-batch 8"; do
    try weir $of --device ./slow_device.json --tensor 2
    try weir $of --device v100-32
    try weir $of --device ./device.json --dtype fp4 2>&1 | sed "s/$name/NAME/; s/ (it has .*//"
    try weir $of --device h100-sxm --tensor 3
done
try weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 8 --schedules 1f1b,nothing 2>&1 | cut -c 1-80
try weir sweep --config config.json --device h100-sxm --devices 8 --global-batch 8 --slow 9:50%

echo "# a learning rate"
for rate in 999 1e30 0 -0.1 nan 0.1x "" 0.1,to:1 0.1,warm-up:x; do
    try weir train mlp --plan plan.json --data . --rate "$rate" 2>&1 | grep -v '^Try'
done

echo "# a schedule"
weir schedule 1f1b -p 2 -m 1 --format json > schedule.json
sed 's/"1F0 1B0 1STEP"/"1STEP"/' schedule.json > idle.json
try weir schedule idle.json --format csv
