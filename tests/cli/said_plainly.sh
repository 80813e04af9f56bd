# What could pass for success and is not, is refused in one sentence: options without effect, results that cannot be
# kept, a training that has come to nothing.
exec 2>&1
try() { "$@" > out; code=$?; cat out; echo "exit $code"; }
model=gpt-nano,width=32,blocks=1,heads=2,sequence=32
weir profile $model -o profile.json > /dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would be untrusted, which is said
plan() { weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 20us' --micro-batches 4 "$@"; }

echo "# options that would be ignored"
try plan --schedule 1f1b --memory 0B
try plan --schedule 1f1b --deadline 0s
try weir partition profile.json --cluster '' --schedule 1f1b --micro-batches 4
try weir model gpt-nano,blocks=2,blocks=3
try weir train gpt-nano --plan plan.json --data . --rate 1e-60

echo "# standard output takes the document and nothing else"
plan --schedule 1f1b -o - | weir simulate - | head -1
plan --schedule 1f1b -o plan.json > /dev/null
weir -h | head -1

echo "# standard output that takes nothing"
weir verify plan.json --steps 1 > /dev/full; echo "exit $?"
weir --help > /dev/full; echo "exit $?"
weir simulate --help > /dev/full; echo "exit $?"

echo "# training"
data=/usr/share/common-licenses
train() { weir train $model --plan plan.json --data $data "$@"; }
try train --out plan.json
try train --out nowhere/out
try train --rate 99 --steps 40 2>&1 | sed '/^step/d; /^40 steps on/d; s/at step [0-9]*/at step N/'
train --steps 1 --beat 3 2>&1 | sed -n '/^weir:/s/takes [0-9.]*/takes N/p'
plan --schedule pipedream -o plan.json > /dev/null
train --steps 2 | grep -o '^step 2 of 2\|time of 2 iterations'
train --steps 5 --flush-every 2 | grep -o '^step 6 of 6\|time of 2 iterations'

# Which cut is best depends on what was measured, and the bytes on the cut.
echo "# a plan turned into another by hand"
plan --schedule 1f1b -o plan.json > /dev/null
sed 's/"name": "1f1b", "weights": "flush"/"name": "pipedream", "weights": "stash"/' plan.json > stash.json
weir verify stash.json 2>&1 | sed 's/stage [0-9]* was counted as [0-9]* bytes/stage S was counted as N bytes/; s/take [0-9]*/take N/; s/since it was made: .*/since it was made: .../'
sed 's/"name": "1f1b"/"name": "gpipe"/' plan.json > gpipe.json
weir train $model --plan gpipe.json --data $data --steps 1 2>&1 |
    sed 's/stage [0-9]* was counted as [0-9]* bytes/stage S was counted as N bytes/; s/take [0-9]*/take N/; s/since it was made: .*/since it was made: .../'

echo "# an example that is too long for a line can be pasted as it is"
for command in partition train; do weir $command --help | sed -n '/^Example/,$p'; done
