# Experts on several devices of a group, which share the tokens of each micro-batch: planned, and run with the bits of a
# sequential run by each schedule that flushes, on threads, on queues and in processes; trained to the same bits
# wherever the experts are; kept, and resumed on other devices; and what is refused.
exec 2>&1
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=5,dropout=0.1
list=0+1+1+0+1+1+0+0/1+0+0+0+0+0+0+1
profile() {  # PROFILE MODEL OPTIONS..
    weir profile "$2" "${@:3}" -o $1 >/dev/null || echo "no profile of $2"
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1  # a busy machine's would not be trusted, which is said
}
plan() {  # PLAN PROFILE SCHEDULE VARIANT STAGES OPTIONS..
    local variants=$4 i
    for ((i = 1; i < $5; i++)); do variants=$variants,$4; done
    rm -f $1
    weir partition $2 --cluster "16 devices, ${memory:-1GiB}, 5GB/s 2us" --schedule $3 --micro-batches 4 \
        --variants $variants -o $1 "${@:6}" >plan.txt || cat plan.txt
}
said() { tail -n 1 | sed 's/: pipeline and.*//'; }
run() { weir verify "$@" 2>&1 | said; }

for capacity in 1 1.25 dropless; do
    echo "# capacity $capacity, in uneven shares"
    profile many.json $small,capacity=$capacity --rows 2,4 --experts blocks,dealt
    profile list.json $small,capacity=$capacity --rows 2 --experts $list
    for row in gpipe:2:blocks 1f1b:4:dealt interleaved:2:dealt zb-h1:4:blocks zb-v:2:dealt dualpipe:2:blocks \
        chimera:2:dealt pipedream:2:dealt pipedream-2bw:4:blocks; do
        IFS=: read -r schedule members places <<<$row
        ranks=2
        [[ $schedule != interleaved && $schedule != zb-v ]] || ranks=4
        plan plan.json many.json $schedule rows$members:$places $ranks --ranks 2
        echo "on $members by $schedule: $(run plan.json)"
    done
    plan plan.json list.json 1f1b rows2:$list 2
    echo "as a list says, clipped, and a short last micro-batch: $(run plan.json --clip 0.1) $(run plan.json --batch 16)"
    echo "on queues that run ahead: $(run plan.json --device cpu:queued)"
    plan plan.json list.json 1f1b rows2:$list 2 --replicas 2,1
    echo "replicas: $(run plan.json)"
    memory=1500KiB plan plan.json many.json gpipe rows2:dealt 2
    grep -q '\["block[0-9].*experts"' plan.json && echo "layers that are recomputed: $(run plan.json)"
done

for router in switch gshard deepseek,groups=4/2,scale=2.5 deepseek,experts=6,top=3,capacity=dropless; do
    echo "# router $router, and a shared expert"
    profile many.json $small,router=$router,shared=1,swiglu --rows 3 --experts dealt
    plan plan.json many.json zb-h1 rows3:dealt 2
    echo "backwards in two parts: $(run plan.json)"
done

echo "# in 16 bits"
for device in cpu:bf16 cpu:fp16; do
    profile half.json $small --rows 2 --experts dealt --device $device
    plan plan.json half.json 1f1b rows2:dealt 2 --optimizer adamw-master
    echo "in ${device#cpu:}: $(run plan.json --device $device)"
done

echo "# a device for each, in processes"
profile many.json $small --rows 2,4 --experts blocks,dealt
plan plan.json many.json 1f1b rows2:dealt 2
queues=cpu:queued,cpu:queued,cpu:queued,cpu:queued
echo "one process: $(run plan.json --device $queues)"
for ((rank = 0; rank < 4; rank++)); do
    WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json --device cpu:queued \
        >rank$rank.txt 2>&1 &
done
wait
echo "processes: $(said <rank0.txt)"
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS timeout -k 5 300 mpirun -n 4 weir verify plan.json --device cpu:queued,mpi >mpi.txt 2>&1
    tail -n 1 mpi.txt | grep -q '^equal: ' || cat mpi.txt
fi

echo "# over a tensor-parallel group, whose devices have all tokens"
profile tensor.json ${small/micro_batch=5/micro_batch=4},router=deepseek,groups=4/2,shared=1,swiglu --tensor 2
for variants in tensor2,tensor2 tensor2,- -,tensor2; do
    rm -f plan.json
    weir partition tensor.json --cluster "16 devices, 1GiB, 5GB/s 2us" --schedule 1f1b --micro-batches 4 --ranks 2 \
        --variants $variants -o plan.json >plan.txt || cat plan.txt
    echo "$variants: $(run plan.json) $(run plan.json --clip 0.1) $(run plan.json --device cpu:queued)"
done

echo "# trained to the same bits, as planned"
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
profile listed.json $small --rows 2 --experts $list
train() {  # FOLDER PROFILE VARIANT
    plan $1.json $2 1f1b $3 2
    weir train $small --plan $1.json --data text --steps 6 --checkpoints $1 --save-every 3 --keep 9 --resume \
        >$1.txt 2>$1.err || cat $1.err
    awk -v name=$3 '/peak bytes/ && $5 != $6 { print name, "takes other bytes than planned:", $0 }' $1.txt
}
same() { diff -r -x manifest.json blocks/step-6 $1/step-6 && echo "$1: the same bits"; }
train blocks many.json rows2:blocks
sed -n '/experts in the last/,$p' blocks.txt | sed 's/[0-9][0-9]*\.[0-9][0-9]*/N/g; s/  */ /g'
train dealt many.json rows2:dealt
same dealt
train list listed.json rows2:$list
same list
cp -r blocks moved && rm -r moved/step-6
train moved listed.json rows2:$list
same moved
cp -r blocks more && rm -r more/step-6
train more many.json rows4:dealt && ls more
cp -r blocks alone && rm -r alone/step-6
rm -f alone.json
weir partition many.json --cluster "2 devices, 1GiB, 5GB/s 2us" --schedule 1f1b --micro-batches 4 --variants -,- \
    -o alone.json >plan.txt || cat plan.txt
weir train $small --plan alone.json --data text --steps 6 --checkpoints alone --save-every 3 --resume >alone.txt 2>&1
echo "exit $?"

echo "# placed by what the tokens of a text choose"
profile least.json $small,capacity=dropless --data text --batches 20 --rows 2 --experts blocks,least
least=$(grep -o 'rows2:[0-9*][^"]*' least.json | sort -u)
echo "$least" | sed 's/[01*]+/N+/g; s/+[01*]/+N/g'
python3 - <<'E'
import json
for layer in json.load(open('least.json'))['layers']:
    variants = layer['variants']
    if layer['kind'] == 'experts':
        blocks, least = variants[0]['slowest_milli'], variants[1]['slowest_milli']
        print(layer['name'], 'is as even or more' if 1000 <= least <= blocks else (blocks, least))
E
plan plan.json least.json 1f1b $least 2
echo "as placed: $(run plan.json)"
weir explain plan.json --profile least.json >explained.txt
grep -o "exchanges within stages .* (in the stages)" explained.txt | sed 's/[0-9][0-9.]*/N/'
grep '^  experts' explained.txt | sed 's/block[13]/blockN/; s/stage [01]/stage N/; s/[0-9][0-9.]*/N/g'

echo "# refused"
weir profile $small --rows 2; echo "exit $?"
weir profile $small --rows 2 --experts some; echo "exit $?"
weir profile $small --rows 2 --experts 0+0+0+0+0+0+0+0; echo "exit $?"
weir profile $small --experts blocks 2>&1 | sed -n 1p; echo "exit ${PIPESTATUS[0]}"
weir profile $small --rows 2 --experts least 2>&1 | sed -n 1p; echo "exit ${PIPESTATUS[0]}"
weir profile gpt-nano --rows 2 --experts blocks; echo "exit $?"
python3 - <<'E'
import json
profile = json.load(open('many.json'))
for layer in profile['layers']:
    layer['variants'] = [v for v in layer['variants'] if layer['kind'] != 'experts' or v['name'] != 'rows2:dealt']
json.dump(profile, open('other.json', 'w'))
E
plan plan.json other.json 1f1b rows2:dealt 2
plan plan.json many.json 1f1b rows2:dealt 2 --optimizer lamb
