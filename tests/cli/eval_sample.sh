# What a checkpoint has learned: the loss that its run has printed, and text.
data=/usr/share/common-licenses
for model in gpt-nano,tied,width=16,blocks=1,heads=2,sequence=16,micro_batch=2 mlp,width=16,blocks=1,sequence=16,micro_batch=2; do
    for optimizer in adamw momentum-master; do
        device=cpu
        [ $optimizer = adamw ] || device=cpu:bf16
        weir profile "$model" --device $device -o profile.json >/dev/null
        weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule 1f1b --micro-batches 2 \
            --optimizer $optimizer --tied apart -o plan.json >/dev/null
        rm -rf kept
        weir train "$model" --data $data --plan plan.json --steps 20 --checkpoints kept --save-every 10 --device $device |
            grep ^held >held.txt
        weir eval "$model" --checkpoint kept --data $data >eval.txt; echo "exit $?"
        head -1 eval.txt
        cmp held.txt <(tail -1 eval.txt) && echo 'as it was'
        weir sample "$model" --checkpoint kept --tokens 30 'The licence ' >a.txt; echo "exit $?, $(wc -c <a.txt) bytes"
        weir sample "$model" --checkpoint kept/step-20 --tokens 30 'The licence ' | cmp - a.txt && echo 'the same'
    done
done
echo '# damaged'
truncate -s -1 kept/step-20/head.safetensors
weir eval "$model" --checkpoint kept --data $data 2>&1 | head -2
weir eval "$model" --checkpoint kept/step-20 --data $data 2>&1; echo "exit $?"
rm -r kept/step-10
weir sample "$model" --checkpoint kept text 2>&1; echo "exit $?"
echo '# another model, other text'
weir eval gpt-nano --checkpoint kept --data $data 2>&1; echo "exit $?"
weir eval "$model" --checkpoint nowhere --data $data 2>&1; echo "exit $?"
model=gpt-nano,width=16,blocks=1,heads=2,sequence=16,micro_batch=2
weir profile "$model" -o profile.json >/dev/null
weir partition profile.json --cluster '1 device, 1GiB, 10GB/s 1us' --schedule gpipe --micro-batches 2 -o plan.json >/dev/null
weir train "$model" --data $data --plan plan.json --steps 1 --checkpoints heads >/dev/null
weir eval "${model/heads=2/heads=4}" --checkpoint heads --data $data 2>&1; echo "exit $?"
weir data text $data -o text.json >/dev/null
diff <(weir eval "$model" --checkpoint heads --data $data) <(weir eval "$model" --checkpoint heads --data text.json)
weir sample "$model" --checkpoint kept '' 2>&1 | head -1
