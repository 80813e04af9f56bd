# A run that begins with the weights of another one: by its own plan, by another one, in another precision.
data=/usr/share/common-licenses
plan() {  # MODEL DEVICE OPTIMIZER SCHEDULE PLAN
    weir profile "$1" --device $2 -o profile.json >/dev/null
    weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule $4 --micro-batches 2 --optimizer $3 \
        --tied apart -o $5 >/dev/null
}
loss() { weir eval "$model" --checkpoint "$1" --data $data | sed -n 2p; }
for model in gpt-nano,width=16,blocks=1,heads=2,sequence=16,micro_batch=2 \
    gpt-nano,tied,width=16,blocks=1,heads=2,sequence=16,micro_batch=2; do
    plan "$model" cpu adamw 1f1b plan.json
    plan "$model" cpu adamw zb-h1 other.json
    plan "$model" cpu:bf16 momentum-master gpipe half.json
    rm -rf first second
    weir train "$model" --data $data --plan plan.json --steps 20 --checkpoints first >/dev/null
    echo "$model"
    for to in plan.json other.json; do
        rm -rf second  # with so small a rate weights stay what they were
        weir train "$model" --data $data --plan $to --steps 1 --rate 1e-35 --weights first/step-20 --checkpoints second >/dev/null
        echo "exit $?"
        [ "$(loss first)" = "$(loss second)" ] && echo 'as they were'
    done
    # In half as many bits, and back to the same ones; the optimizer has them in full.
    for again in second third; do
        from=$([ $again = second ] && echo first/step-20 || echo second/step-1)
        rm -rf $again
        weir train "$model" --data $data --plan half.json --steps 1 --rate 1e-35 --device cpu:bf16 --weights $from \
            --checkpoints $again >/dev/null
        echo "exit $?"
    done
    [ "$(loss second)" = "$(loss third)" ] && echo 'as they were'
done
echo '# what is gone on with has weights of its own'
weir train "$model" --data $data --plan half.json --steps 2 --device cpu:bf16 --weights first/step-20 --checkpoints third \
    --resume 2>&1 >/dev/null | head -1
echo '# what cannot be begun with'
weir train "$model" --data $data --plan plan.json --weights nowhere 2>&1; echo "exit $?"
mkdir empty
weir train "$model" --data $data --plan plan.json --weights empty 2>&1; echo "exit $?"
other="gpt-nano,tied,width=32,blocks=1,heads=2,sequence=16,micro_batch=2"
weir eval "$other" --checkpoint first/step-20/embedding.safetensors --data $data 2>&1; echo "exit $?"
truncate -s -1 first/step-20/head.safetensors
weir train "$model" --data $data --plan plan.json --weights first/step-20 2>&1; echo "exit $?"
