# GPTs whose attention has a window, global tokens and strides: profiled, planned, run with the bits of a sequential run,
# trained and kept; and what is refused.
exec 2>&1
small=gpt-nano,width=32,heads=4,blocks=2,sequence=64,micro_batch=4
plan() {  # PROFILE OPTIONS OF WEIR PARTITION..
    rm -f plan.json
    weir partition $1 --cluster "4 devices, ${memory:-1GiB}, 5GB/s 2us" --micro-batches 4 "${@:2}" -o plan.json >/dev/null 2>&1
}
run() { echo "$1: $(weir verify plan.json --steps 3 "${@:2}" | tail -n 1)"; }

echo "# sizes: operations are those of what is seen"
for pattern in "" ,window=64 ,window=1 ,window=8 ,window=8,global=4 ,window=8,global=4,stride=8/2; do
    echo "${pattern:-none}: $(weir model $small$pattern --json | grep -m 1 flops)"
done
weir model $small,window=8,global=4,stride=8/2 --json | sed -n '/"heads"/,/"dropout"/p'

for pattern in window=7 window=5,global=3 window=9,global=2,stride=16/3; do
    echo "# $pattern"
    weir profile $small,dropout=0.1,$pattern --tensor 2 -o profile.json >/dev/null
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be trusted, which is said
    plan profile.json --schedule 1f1b --ranks 2 && run "1f1b" && run "on a queue that runs ahead" --device cpu:queued
    plan profile.json --schedule zb-h1 --ranks 2 && run "backwards in two parts"
    plan profile.json --schedule seq1f1b --ranks 2 && run "sequences in parts"
    plan profile.json --schedule 1f1b --variants tensor2,tensor2 && run "tensor parallel"
    memory=1550KiB plan profile.json --schedule gpipe --ranks 2 && grep -q '\["block0.attention"' plan.json &&
        run "layers that are recomputed"
done
weir profile $small,window=7 --device cpu:bf16 -o profile.json >/dev/null
plan profile.json --schedule 1f1b --ranks 2 --optimizer adamw-master && run "in bf16" --device cpu:bf16

echo "# trained, kept, and gone on with only as it is"
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done > text
tied=gpt-nano,tied,width=32,heads=4,blocks=2,sequence=40,micro_batch=2
weir profile $tied,window=7 -o profile.json >/dev/null
plan profile.json --schedule 1f1b --ranks 2 --tied apart
weir train $tied,window=7 --plan plan.json --data text --steps 4 --checkpoints kept >/dev/null; echo "exit $?"
ls kept/step-4 | grep -c config.json
weir train $tied,window=8 --plan plan.json --data text --steps 4; echo "exit $?"
weir eval $tied,window=7 --checkpoint kept --data text >/dev/null; echo "exit $?"
weir eval $tied --checkpoint kept --data text; echo "exit $?"
weir eval $tied,window=7,global=1 --checkpoint kept --data text; echo "exit $?"
cp -r kept/step-4 theirs && echo '{"model_type": "gpt2"}' > theirs/config.json
weir train $tied,window=7 --plan plan.json --data text --steps 4 --weights theirs; echo "exit $?"

echo "# what is refused"
for sizes in gpt-nano,window=0 gpt-nano,window=x gpt-nano,window gpt-nano,global=4 gpt-nano,stride=8/2 \
    gpt-nano,window=4,stride=8 gpt-nano,window=4,stride=8/8 gpt-nano,window=4,stride=8/0 gpt-nano,window=4,stride=8/2/1 \
    gpt-nano,window=4,window=8 mlp,window=4 mlp-unet,window=4 resnet18,window=4 dlrm,global=4 gpt2,stride=4/1,window=0; do
    weir model $sizes; echo "exit $?"
done
