# Real profiles that nobody here made, swept over every schedule that trains: the best plan holds and is simulated as planned.
set -e
data=$ROOT/../shared/data/partition/pipedream
if [ ! -d "$data" ]; then
    echo '# skip: the real profiles are not here (shared/data beside the project)'
    exit 77
fi
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$2" | head -1; }
for graph in gnmt vgg16 resnet50; do
    weir import pipedream "$data/$graph.graph.txt" -o profile.json > /dev/null
    weir sweep profile.json --cluster "4 devices, 16GiB, 12GB/s 5us" --optimizer sgd --micro-batches 16 --budget 50000 \
        --json --plan plan.json > sweep.json
    weir check plan.json --profile profile.json > /dev/null
    weir simulate plan.json --json > simulation.json
    [ "$(number iteration_ns plan.json)" = "$(number iteration_ns simulation.json)" ] && echo "$graph: simulated as planned"
    grep -A17 '"schedule": "1f1b"' sweep.json | grep -q '"best": false' && echo "$graph: 1f1b is not the best"
done
