# `weir schedule search` prints the best order, a bound and the gap; what it writes can run.
search="weir schedule search --ranks 3 --micro-batches 4 --cost 3us,4us,2us,1us --keep 100B,60B --memory 300B"
$search
$search --json | weir check - | head -1
$search --json | grep notes
$search --objective makespan | sed -n 2,4p
weir schedule search --ranks 3 --micro-batches 4 --cost 3us,4us,2us,1us --keep 100B,60B --memory 99B 2>&1; echo "exit $?"
weir schedule search --ranks 3 --micro-batches 4 2>&1 | head -1
cat > costs.json <<'END'
{"format": "weir.costs", "version": 1, "latency_ns": 1,
 "costs": [{"forward_ns": 7, "backward_input_ns": 8, "backward_weight_ns": 3, "kept_forward_bytes": 100},
           {"forward_ns": 9, "backward_input_ns": 11, "backward_weight_ns": 4, "kept_forward_bytes": 80}]}
END
weir schedule search --ranks 2 --micro-batches 5 --cost costs.json --memory 200B -o found.json
weir simulate found.json --cost costs.json | grep -o 'longest span of a rank .*'
weir schedule search --ranks 3 --micro-batches 5 --cost costs.json 2>&1; echo "exit $?"
echo "# stages that keep more after I than after F, as those of most models do; a live peak is what an order keeps, too"
sed 's/"kept_forward_bytes": 100/&, "kept_weight_bytes": 150/; s/"kept_forward_bytes": 80/&, "kept_weight_bytes": 130/' costs.json > growing.json
weir schedule search --ranks 2 --micro-batches 5 --cost growing.json --memory 290B -o growing_found.json
weir simulate growing_found.json --cost growing.json --json | grep -o '"live_peak_bytes": [0-9]*'
weir schedule search --ranks 2 --micro-batches 5 --cost growing.json --memory 149B 2>&1; echo "exit $?"
