# The learning rate: how it goes is said at the command line, kept in checkpoints, and gone on by.
exec 2>&1
model=gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2
weir profile $model -o profile.json > /dev/null 2>&1
weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 -o plan.json > /dev/null 2>&1
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done > text
train() {  # when a checkpoint between two others is whole goes by the disk, and so does what is said of it
    weir train $model --plan plan.json --data text --steps 6 --every 6 --save-every 3 --keep 9 "$@" 2>train.err
    local code=$?
    grep -v ' is kept$' train.err >&2; return $code
}
rate=0.01,linear,warm-up:2,to:0.001
train --rate $rate --checkpoints whole > /dev/null; echo "exit $?"
grep '"rate"' whole/step-6/manifest.json
train --checkpoints usual > /dev/null; echo "exit $?"
cmp -s whole/step-6/head.safetensors usual/step-6/head.safetensors || echo "other weights by another rate"
cp -r whole gone && rm -r gone/step-6
train --rate 1e-2,to:1e-3,warm-up:2,linear --checkpoints gone --resume > /dev/null; echo "exit $?"
diff -r whole/step-6 gone/step-6 && echo "the same bits"
rm -r gone/step-6
train --rate 0.01,constant --checkpoints gone --resume 2>&1 > /dev/null | grep rate
for rate in 0 0.01,steep 0.01,to:1 0.01,warm-up:x; do train --rate $rate --checkpoints none; echo "exit $?"; done
