# `weir compare` holds a run against its plan, and says why they differ.
exec 2>&1
weir schedule 1f1b --ranks 2 --micro-batches 4 --format json > 1f1b.json
row() { printf '{"forward_ns": %s, "backward_ns": %s, "backward_input_ns": 1, "backward_weight_ns": 1, "step_ns": 5000, "output_bytes": 1000, "kept_forward_bytes": 4096}' "$@"; }
costs() { echo "{\"format\": \"weir.costs\", \"version\": 1, \"costs\": [$(row "$1" "$2"), $(row "$3" "$4")]}"; }
costs 10000 20000 10000 20000 > planned.json
costs 10000 20000 12000 26000 > slower.json
plan() { weir simulate 1f1b.json --cost "$1" --cluster "2 devices, 1GiB, 1GB/s $2" --format trace -o "$3"; }
plan planned.json 1us as_planned.trace.json
plan slower.json 1us slow_stage.trace.json
plan planned.json 9us slow_link.trace.json
for run in as_planned slow_stage slow_link; do
    echo "# $run"
    weir compare 1f1b.json $run.trace.json --cost planned.json --cluster "2 devices, 1GiB, 1GB/s 1us" 2>/dev/null
done
weir compare 1f1b.json slow_stage.trace.json --cost planned.json --cluster "2 devices, 1GiB, 1GB/s 1us" --json 2>/dev/null |
    grep -A 3 causes
echo "# a real run of PyTorch's pipelining, whose durations nobody had profiled"
weir schedule gpipe --ranks 2 --micro-batches 4 --format json > gpipe.json
weir compare gpipe.json "$ROOT"/tests/cli/torch_traces/gpipe_rank*.json --cost 4500us,9ms,0us,100us 2>/dev/null
echo "# what was measured becomes the profile of the next plan: forwards take twice as long as profiled"
weir import pipedream "$ROOT"/tests/fuzz/seeds/pipedream/small.txt -o profile.json 2>/dev/null
weir partition profile.json --cluster "2 devices, 80GiB, 100GB/s 1us" --schedule 1f1b -m 4 -o plan.json > /dev/null
awk '/"forward_ns"/ { sub(/[0-9]+/, 2 * $2) } { print }' profile.json > slower_profile.json
weir price slower_profile.json --plan plan.json --json > slower_plan.json 2>/dev/null
weir simulate slower_plan.json --format trace -o run.trace.json 2>/dev/null
weir compare plan.json run.trace.json --refine profile.json -o refined.json 2>/dev/null | grep -E 'iteration|  F|  B'
grep notes refined.json
weir price refined.json --plan plan.json --json 2>/dev/null | grep iteration_ns
grep '"iteration_ns' slower_plan.json
try() {
    echo "+ weir compare $*"
    weir compare "$@" 2>&1 | grep -v 'left out'
}
weir schedule 1f1b --ranks 2 --micro-batches 5 --format json > more.json
try more.json slow_stage.trace.json --cost 1us,1us,1us,1us
try 1f1b.json slow_stage.trace.json
try 1f1b.json
try 1f1b.json slow_stage.trace.json --cost 1us,1us,1us,1us --iteration all
try 1f1b.json 1f1b.json --cost 1us,1us,1us,1us
try plan.json run.trace.json --refine profile.json
try 1f1b.json slow_stage.trace.json --cost planned.json --refine profile.json -o refined.json
try plan.json run.trace.json --refine refined.json -o again.json | sed -E 's/[0-9a-f]{32}/HASH/g'
