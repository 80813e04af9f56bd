# `weir simulate --trace` says what a measured run took, of all ranks in one file or a file each, packed or not.
exec 2>&1
cost="--cost 10us,12us,8us,2us"
weir schedule zb-h1 --ranks 2 --micro-batches 3 --format json > zb.json
weir simulate zb.json $cost --format trace -o run.json
gzip -k run.json
weir simulate --trace run.json.gz
cat run.json | weir simulate --trace - --json | grep -E 'schedule|iteration|bubble'
# Two files of PyTorch's profiler, whose times are a little off; the shell's pattern behind --trace.
event() { printf '{"ph":"X","cat":"user_annotation","name":"%s","pid":%s,"tid":1,"ts":%s,"dur":%s}' "$@"; }
echo "{\"traceEvents\":[$(event 'PP:0F0' 71 0 10),$(event 'PP:0F1' 71 10 10.5),$(event 'PP:0B0' 71 45 20),$(event 'PP:0B1' 71 75 21)],
\"distributedInfo\":{\"rank\":0}}" | gzip > rank0.json.gz
echo "{\"traceEvents\":[$(event 'PP:1F0' 72 12 10),$(event 'PP:1B0' 72 22 20),$(event 'PP:1F1' 72 42 11),$(event 'PP:1B1' 72 53 20)],
\"distributedInfo\":{\"rank\":1}}" | gzip > rank1.json.gz
weir schedule 1f1b --ranks 2 --micro-batches 2 --format json > 1f1b.json
weir simulate --trace rank*.json.gz --against 1f1b.json $cost
weir simulate 1f1b.json $cost --against run.json | grep '^first'
weir simulate --trace rank*.json.gz --against 1f1b.json $cost --format html -o page.html && grep -o '<title>.*' page.html
# Real runs of PyTorch 2.15 on two processes (gloo), with operators within operators removed. It waits for messages within
# its actions. What the clock around the stages' calls said at the same time is in *_true.txt (rank, action, from, to in
# ns): the bubbles are less than 1.5 points apart (28 where waiting counts as work), since an action also prices the loss
# and posts messages, which no stage's call does. bench/peers/record_traces.py makes such traces.
torch_traces=$ROOT/tests/cli/torch_traces
for run in gpipe zero_bubble; do
    weir simulate --trace "$torch_traces"/${run}_rank*.json 2>err | head -9
    cut -d: -f3- err
    weir simulate --trace "$torch_traces"/${run}_rank*.json --json 2>err | grep -o '"makespan": [0-9.]*' > read
    awk 'NR == FNR { read = $2; next }
         { busy += $4 - $3; first = first == 0 || $3 < first ? $3 : first; last = $4 > last ? $4 : last }
         END { true = 1 - busy / (2 * (last - first)); apart = read < true ? true - read : read - true
               print (apart < 0.015 ? "as it was" : "read " read ", but it was " true) }' read "$torch_traces/${run}_true.txt"
done
# What is wrong is said.
try() {
    echo "+ weir simulate $*"
    weir simulate "$@"
    echo "exit $?"
}
head -c 300 run.json.gz > cut.json.gz
try --trace cut.json.gz
try --trace zb.json
try --trace nothing.json
try --trace run.json --iteration 7
try --trace run.json --cost 1us,1us,1us,1us
try --trace run.json --one-lane
try 1f1b.json --iteration 2
echo "# inference keeps nothing, simulated or read off a trace; a folder is no trace"
weir schedule forward-only --ranks 2 --micro-batches 4 --format json > inference.json
weir simulate inference.json --cost 3us,4us,2us,1us --format trace > inference.trace.json
weir simulate inference.json --cost 3us,4us,2us,1us --json | grep -o '"peak_in_flight": [0-9]*'
weir simulate --trace inference.trace.json --json | grep -o '"peak_in_flight": [0-9]*'
weir simulate --trace . 2>&1; echo "exit $?"
