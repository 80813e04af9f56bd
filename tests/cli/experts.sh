# GPTs with experts: profiled, planned, run with the bits of a sequential run under each kind of schedule, on threads, on
# queues and in processes, trained and kept; and what is refused.
exec 2>&1
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=4,dropout=0.1
plan() {  # OPTIONS OF WEIR PARTITION..
    rm -f plan.json
    weir partition profile.json --cluster "2 devices, ${memory:-1GiB}, 5GB/s 2us" --micro-batches 4 "$@" -o plan.json \
        >/dev/null 2>&1
}
run() { echo "$1: $(weir verify plan.json --steps 3 "${@:2}" | tail -n 1)"; }
profile() {
    weir profile "$@" -o profile.json >/dev/null
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be trusted, which is said
}

echo "# sizes: a token has the operations of gpt-nano and those of the router"
for model in gpt-nano gpt-moe-nano gpt-moe-nano,top=4 gpt-moe-nano,capacity=1 gpt-moe-nano,capacity=0.5 \
    gpt-moe-nano,capacity=dropless,shared=1 gpt-moe-nano,swiglu gpt-moe-nano,router=switch,inner=64; do
    echo "$model: $(weir model $model --json | sed -n 's/^  "parameters": \|^  "flops": //p' | paste -sd' ')"
done
weir model gpt-moe-nano,experts=16,top=4,router=deepseek,groups=4/2,capacity=dropless,scale=2.5,shared=1 --json |
    grep '"experts": {'

for capacity in 1 1.25 dropless; do
    echo "# capacity $capacity"
    profile $small,capacity=$capacity
    for schedule in gpipe 1f1b "interleaved --chunks 2" zb-h1 zb-v dualpipe chimera pipedream pipedream-2bw; do
        plan --schedule $schedule --ranks 2 && run "$schedule"
    done
    plan --schedule 1f1b --ranks 2 && run "on a queue that runs ahead" --device cpu:queued
    memory=3100KiB plan --schedule gpipe --ranks 2 && grep -q '\["block[0-9].*experts"' plan.json &&
        run "layers that are recomputed"
    plan --schedule 1f1b --replicas 2 && run "replicas"
done

for router in switch gshard deepseek,groups=4/2,scale=2.5 deepseek,experts=6,top=3,capacity=dropless; do
    echo "# router $router"
    profile $small,router=$router,shared=1,swiglu
    plan --schedule 1f1b --ranks 2 && run "1f1b"
    plan --schedule zb-h1 --ranks 2 && run "backwards in two parts"
done
plan --schedule pipedream --ranks 2 && weir verify plan.json

echo "# in 16 bits, and in processes"
for device in cpu:bf16 cpu:fp16; do
    profile $small --device $device
    plan --schedule 1f1b --ranks 2 --optimizer adamw-master && run "in ${device#cpu:}" --device $device
done
profile $small
plan --schedule zb-h1 --ranks 2
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json --device cpu:queued \
        >rank$rank.txt 2>&1 &
done
wait
tail -qn 1 rank0.txt rank1.txt

echo "# trained, kept, and gone on with only as it is"
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done > text
weir train $small --plan plan.json --data text --steps 6 --checkpoints kept --save-every 3 >printed.txt; echo "exit $?"
sed -n '/experts in the last/,$p' printed.txt | sed 's/[0-9][0-9]*\.[0-9][0-9]*/N/g; s/  */ /g'
mkdir half && cp -r kept/step-3 half
weir train $small --plan plan.json --data text --steps 6 --checkpoints half --save-every 3 --resume >/dev/null; echo "exit $?"
for layer in block1.experts block3.experts; do
    cmp kept/step-6/$layer.safetensors half/step-6/$layer.safetensors && echo "$layer: the same, stopped or not"
done
weir eval $small --checkpoint kept --data text >/dev/null; echo "exit $?"
weir eval $small,capacity=2 --checkpoint kept --data text; echo "exit $?"
weir eval ${small/-moe/} --checkpoint kept --data text; echo "exit $?"

echo "# what is refused"
for sizes in gpt-nano,experts=4 mlp,top=1 gpt-moe-nano,experts=0 gpt-moe-nano,experts=2,top=3 gpt-moe-nano,experts=300 \
    gpt-moe-nano,router=best gpt-moe-nano,router=switch,top=2 gpt-moe-nano,router=gshard,top=1 \
    gpt-moe-nano,capacity=-1 gpt-moe-nano,capacity=all gpt-moe-nano,aux=x gpt-moe-nano,groups=4/2 \
    gpt-moe-nano,router=deepseek,groups=4 gpt-moe-nano,router=deepseek,groups=3/1 \
    gpt-moe-nano,router=deepseek,groups=8/1 gpt-moe-nano,speed=1 gpt-moe-nano,router=deepseek,scale=0 \
    gpt-moe-nano,top=2/1 gpt-moe-nano,swiglu=yes gpt-moe-nano,z=1,z=2; do
    weir model $sizes; echo "exit $?"
done
plan --schedule seq1f1b --ranks 2; weir partition profile.json --cluster "2 devices, 1GiB, 5GB/s 2us" --micro-batches 4 \
    --schedule seq1f1b --ranks 2 -o plan.json; echo "exit $?"
