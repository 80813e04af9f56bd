# Which devices hold which stage can be given, or chosen; what cannot be is said in a sentence.
cat > profile.json <<'END'
{
  "format": "weir.profile", "version": 1, "model": "small", "micro_batch": 1, "dtype": "fp32",
  "source": {"how": "estimated", "device": "", "clock": "", "repeats": 0, "sum_ns": 0, "whole_ns": 0, "backward_split": "assumed"},
  "layers": [
END
separator=''
for layer in a b c d; do
    case $layer in a) ns=9000000 ;; *) ns=1000000 ;; esac
    cat >> profile.json <<END
    $separator{"name": "$layer", "kind": "Linear", "forward_ns": $ns, "backward_input_ns": $ns, "backward_weight_ns": $ns, "parameter_bytes": 65536,
     "output_bytes": 65536, "saved_bytes": 65536, "input_kept": "none", "held_for_weight_bytes": 0, "workspace_bytes": 0,
     "backward_workspace_bytes": 0, "flops": 0, "variants": [
       {"name": "split2", "forward_ns": $((ns / 2)), "backward_input_ns": $((ns / 2)), "backward_weight_ns": $((ns / 2)), "parameter_bytes": 32768,
        "output_bytes": 65536, "saved_bytes": 32768, "input_kept": "none", "held_for_weight_bytes": 0, "workspace_bytes": 0,
        "backward_workspace_bytes": 0, "flops": 0, "communication_ns": 50000, "devices": 2}]}
END
    separator=,
done
echo '  ]}' >> profile.json
cluster='4 devices, 16MiB, 10GB/s 10us'
plan() { weir partition profile.json --cluster "$cluster" --micro-batches 6 --optimizer sgd "$@" 2>&1; }
echo "# given"
plan --schedule 1f1b --replicas 3,1
plan --schedule 1f1b --replicas 1,1 --devices 3,1 | sed -n 3,4p
plan --schedule 1f1b --variants split2,-,- | sed -n 3,5p
echo "# chosen"
plan --schedule 1f1b --replicas auto
plan --schedule pipedream --replicas auto --fewer | sed -n 2,4p
plan --schedule 1f1b --variants auto -o plan.json | sed -n 2,5p
grep -o '"variant": "[a-z0-9]*"\|"devices": \[\[.*\]\]' plan.json
weir check plan.json --profile profile.json
weir explain plan.json --profile profile.json | sed -n '1p;/change$/,$p'
weir simulate plan.json | head -3
weir price profile.json --plan plan.json | tail -1
cat > unlike.json <<'END'
{"format": "weir.cluster", "version": 1, "devices": [
  {"name": "slow", "memory_bytes": 16777216, "speed_permille": 500}, {"name": "fast", "memory_bytes": 16777216, "speed_permille": 2000},
  {"name": "usual", "memory_bytes": 16777216, "speed_permille": 1000}],
 "levels": [{"size": 3, "latency_ns": 10000, "bytes_per_second": 10000000000}]}
END
cluster=unlike.json
plan --schedule 1f1b | sed -n 3,5p
plan --schedule 1f1b --devices auto | sed -n 3,5p
plan --schedule zb-h1 --devices auto --fewer | sed -n 3,5p
echo "# refused"
refuse() { weir partition profile.json --cluster "$cluster" --micro-batches 6 "$@" 2>&1 | head -1; }
refuse --schedule zb-h1 --replicas auto
refuse --schedule 1f1b --replicas 2,0
refuse --schedule 1f1b --replicas 2,2
refuse --schedule 1f1b --replicas '[2,1'
refuse --schedule 1f1b --replicas '2,1]'
refuse --schedule 1f1b --devices 0,1,3
refuse --schedule 1f1b --devices 0,1,1
refuse --schedule 1f1b --ranks 2 --devices 0,1,2
refuse --schedule 1f1b --variants split2,split3
refuse --schedule 1f1b --variants split2,
refuse --schedule 1f1b --replicas 1,1 --variants split2
refuse --schedule 1f1b --replicas auto --variants split2,-
refuse --schedule 1f1b --variants split2,split2
