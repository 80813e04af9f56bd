# Real profiles that nobody here made: imported, partitioned for 4 and 16 ranks, the schedule proved, the plan simulated.
set -e
data=$ROOT/../shared/data/partition/pipedream
if [ ! -d "$data" ]; then
    echo '# skip: the real profiles are not here (shared/data beside the project)'
    exit 77
fi
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$2" | head -1; }
for graph in alexnet gnmt gnmt_large inception_v3 resnet50 vgg16; do
    weir import pipedream "$data/$graph.graph.txt" -o profile.json > /dev/null
    for ranks in 4 16; do
        weir partition profile.json --cluster "$ranks devices, 80GiB, 12GB/s 5us" --schedule 1f1b --micro-batches 32 \
            --optimizer sgd --budget 300000 -o plan.json > table.txt
        weir schedule 1f1b --ranks $ranks --micro-batches 32 --format json | weir check - > /dev/null
        weir simulate plan.json --json > simulation.json
        planned=$(number iteration_ns plan.json)
        simulated=$(number iteration_ns simulation.json)
        stages=$(grep -c '^ *{"stage"\|"stage":' plan.json)
        [ "$planned" = "$simulated" ] && echo "$graph on $ranks ranks: $stages stages, simulated as planned"
    done
done
