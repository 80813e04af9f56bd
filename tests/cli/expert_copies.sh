# Copies of busy experts on all devices of a group: planned, and run with the bits of a sequential run by schedules that
# flush and without a flush, on 2 and 4 devices, on queues and in processes; in as many bytes as planned; kept as whole
# layers, from which other places go on.
exec 2>&1
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=5,dropout=0.1
two='*+1+1+0+*+1+0+0/1+0+0+*+0+0+0+1'   # of the second layer device 1 has one expert less
four='*+1+2+3+0+*+2+3/3+*+*+*+*+*+*+*'  # and there devices 0, 1 and 2 have copies only
all='*+*+*+*+*+*+*+*'
profile() {  # PROFILE MODEL OPTIONS..
    weir profile "$2" "${@:3}" -o $1 >/dev/null || echo "no profile of $2"
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1  # a busy machine's would not be trusted, which is said
}
plan() {  # PLAN PROFILE SCHEDULE VARIANT STAGES OPTIONS..
    local variants=$4 i
    for ((i = 1; i < $5; i++)); do variants=$variants,$4; done
    rm -f $1
    weir partition $2 --cluster "16 devices, ${memory:-1GiB}, 5GB/s 2us" --schedule $3 --micro-batches 4 \
        --variants "$variants" -o $1 "${@:6}" >plan.txt || cat plan.txt
}
said() { tail -n 1 | sed 's/: pipeline and.*//'; }
run() { weir verify "$@" 2>&1 | said; }

for capacity in 1.25 dropless; do
    echo "# capacity $capacity, in uneven shares"
    profile 2.json $small,capacity=$capacity --rows 2 --experts "$two"
    profile 4.json $small,capacity=$capacity --rows 4 --experts "$four"
    for row in gpipe:2 1f1b:4 1f1b:2 zb-h1:4 interleaved:2 zb-v:2 dualpipe:2 pipedream-2bw:4; do
        IFS=: read -r schedule members <<<$row
        ranks=2 places=$two
        [[ $schedule != interleaved && $schedule != zb-v ]] || ranks=4
        [[ $members != 4 ]] || places=$four
        plan plan.json $members.json $schedule "rows$members:$places" $ranks --ranks 2
        echo "on $members by $schedule: $(run plan.json)"
    done
    plan plan.json 2.json 1f1b "rows2:$two" 2
    echo "clipped, and a short last micro-batch: $(run plan.json --clip 0.1) $(run plan.json --batch 16)"
    echo "on queues that run ahead: $(run plan.json --device cpu:queued)"
    plan plan.json 2.json 1f1b "rows2:$two" 2 --replicas 2,1
    echo "replicas: $(run plan.json)"
    plan plan.json 2.json 1f1b "rows2:$two" 2 --replicas 2,1 --shard optimizer
    echo "replicas that share the optimizer's state: $(run plan.json) $(run plan.json --clip 0.1)"
    memory=1500KiB plan plan.json 2.json gpipe "rows2:$two" 2
    grep -q '\["block[0-9].*experts"' plan.json && echo "layers that are recomputed: $(run plan.json)"
done

for router in switch gshard deepseek,groups=4/2,scale=2.5; do
    echo "# router $router, and a shared expert"
    profile shared.json $small,router=$router,shared=1,swiglu --rows 4 --experts "$four"
    plan plan.json shared.json zb-h1 "rows4:$four" 2
    echo "backwards in two parts: $(run plan.json)"
done

echo "# in 16 bits"
for device in cpu:bf16 cpu:fp16; do
    profile half.json $small --rows 2 --experts "$two" --device $device
    plan plan.json half.json 1f1b "rows2:$two" 2 --optimizer adamw-master
    echo "in ${device#cpu:}: $(run plan.json --device $device)"
done

echo "# a device for each, in processes"
profile many.json $small --rows 2 --experts "$two,dealt,$all"
plan plan.json many.json 1f1b "rows2:$two" 2
for ((rank = 0; rank < 4; rank++)); do
    WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json --device cpu:queued \
        >rank$rank.txt 2>&1 &
done
wait
echo "processes: $(said <rank0.txt)"

echo "# kept, and gone on with by other places"
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
train() {  # FOLDER VARIANT OPTIONS OF WEIR TRAIN..
    plan $1.json many.json 1f1b "$2" 2 --optimizer sgd
    weir train $small --plan $1.json --data text --steps 6 --rate 1 --checkpoints $1 --save-every 3 --keep 9 --resume \
        "${@:3}" >$1.txt 2>$1.err || cat $1.err
    awk -v name=$1 '/peak bytes/ && $5 != $6 { print name, "takes other bytes than planned:", $0 }' $1.txt
    awk -v name=$1 '/peak bytes/ { seen = 1 } END { if (!seen) print name, "says no bytes" }' $1.txt
}
cat >apart.py <<'END_OF_PYTHON'
# How far the tensors of two checkpoints are apart, over how far they have come since a third one.
import glob, json, os, struct, sys
def numbers(folder):
    found = {}
    for file in sorted(glob.glob(folder + '/*.safetensors')):
        data = open(file, 'rb').read()
        size, = struct.unpack('<Q', data[:8])
        for name, tensor in json.loads(data[8:8 + size]).items():
            if name != '__metadata__' and 'counts' not in name and '.weight' in name and 'optimizer' not in name:
                first, end = tensor['data_offsets']
                found[os.path.basename(file), name] = struct.unpack(
                    f'<{(end - first) // 4}f', data[8 + size + first:8 + size + end])
    return found
one, other, first = map(numbers, sys.argv[1:])
assert one.keys() == other.keys() == first.keys()
off = sum((x - y) ** 2 for key in one for x, y in zip(one[key], other[key])) ** 0.5
way = sum((x - y) ** 2 for key in one for x, y in zip(one[key], first[key])) ** 0.5
print('the same' if off == 0 else 'near' if off < 1e-3 * way else f'apart by {off} of {way}')
END_OF_PYTHON
train dealt rows2:dealt
train copied "rows2:$two"
train every "rows2:$all"
for run in copied every; do
    diff <(ls dealt/step-6) <(ls $run/step-6) && echo "$run: $(python3 apart.py $run/step-6 dealt/step-6 dealt/step-3)"
done
train clipped-dealt rows2:dealt --clip 0.05
train clipped "rows2:$two" --clip 0.05
echo "clipped: $(python3 apart.py clipped/step-6 clipped-dealt/step-6 clipped-dealt/step-3)"
cp -r dealt to && rm -r to/step-6 && train to "rows2:$two"
cp -r copied from && rm -r from/step-6 && train from rows2:dealt
cp -r copied again && rm -r again/step-6 && train again "rows2:$two"
for run in to from again; do
    echo "$run: $(python3 apart.py $run/step-6 copied/step-6 copied/step-3)"
done
diff -r -x manifest.json copied/step-6 again/step-6 && echo "again: the same bits"

echo "# what routers have chosen in a run"
weir train $small --plan copied.json --data text --steps 2 --out out >/dev/null 2>&1
grep -o '"members": .*\]' out/measured.trace.json
weir compare copied.json out/measured.trace.json --json -o compared.json 2>/dev/null
python3 - <<'END_OF_PYTHON'
import json
counted = json.load(open('out/measured.trace.json'))['weir']['routing']['layers']
for row, layer in zip(json.load(open('compared.json'))['experts'], counted):
    taken = [[min(n, layer.get('capacity', n)) for n in counts] for counts in layer['counts']]
    rows = sum(max(sum(n if member == m else -(-n // 2) if member == '*' else 0
                       for n, member in zip(counts, layer['members'])) for m in (0, 1)) for counts in taken)
    even = len(taken) * layer['pairs'] / 2
    print(row['layer'], abs(row['measured_slowest_milli'] - 1000 * rows / even) <= 0.5)
END_OF_PYTHON
weir compare copied.json out/measured.trace.json --profile many.json --refine many.json -o refined.json >/dev/null 2>&1
grep -c '"\*"' refined.json
plan refined-plan.json refined.json 1f1b "rows2:$two" 2 && echo "planned anew: $(run refined-plan.json)"

echo "# room for fewer rows"
profile room.json $small,capacity=dropless --rows 2 --experts "$two" --most-rows 300
plan plan.json room.json 1f1b "rows2:$two:300" 2
echo "as planned: $(run plan.json)"

echo "# placed by a skewed routing: expert i of 8 is chosen as often as 1 / i"
profile counted.json $small,capacity=dropless --data text --batches 4
cat >skew.py <<'END_OF_PYTHON'
import json, sys
profile = json.load(open('counted.json'))
for number, layer in enumerate(profile['routing']['layers']):
    pairs, weights = layer['pairs'], [1 / (1 + (e + 3 * number) % 8) for e in range(8)]
    for counts in layer['counts']:
        counts[:] = [int(pairs * weight / sum(weights)) for weight in weights]
        counts[0] += pairs - sum(counts)
for layer in profile['layers']:
    if layer['kind'] == 'experts':
        layer['forward_ns'], layer['backward_input_ns'], layer['backward_weight_ns'] = 600000, 800000, 600000
        layer.pop('backward_ns', None)
        for key in [key for key in layer if key.startswith('spread')]:
            layer.pop(key)
profile['source']['whole_ns'] = 0
profile['source']['sum_ns'] = sum(layer['forward_ns'] + layer.get(
    'backward_ns', layer['backward_input_ns'] + layer['backward_weight_ns']) for layer in profile['layers'])
json.dump(profile, open('skewed.json', 'w'))
END_OF_PYTHON
python3 skew.py
weir place skewed.json --cluster "4 devices, 1GiB, 5GB/s 2us"
echo "# with slow links, and an update that has more micro-batches"
slow="4 devices, 1GiB, 20MB/s 20us"
weir place skewed.json --cluster "$slow" | sed -n '1p; /^layer/,/^$/p; /alone/p'
weir place skewed.json --cluster "$slow" --micro-batches 32 | sed -n '1p; /^layer/,/^$/p; /alone/p'
weir place skewed.json --cluster "4 devices, 1GiB, 5GB/s 2us" --json | grep -A 1 '"members": \[' | head -n 2
weir place skewed.json --cluster "1 devices, 1GiB, 5GB/s 2us" | grep -c 'all members'

echo "# least, by a text of one letter, for which routers choose few experts"
for i in $(seq 800); do printf 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n'; done >letters
profile least.json $small,capacity=dropless --data letters --batches 20 --rows 4 --experts dealt,least
least=$(grep -o 'rows4:[0-9*][^"]*' least.json | sort -u)
[[ $least == *'*'* ]] && echo "some are copied"
plan plan.json least.json 1f1b "$least" 2
echo "as placed: $(run plan.json)"
explain() {
    weir explain plan.json --profile least.json 2>&1 | grep -A 2 '^  experts' | grep . |
        sed 's/  */ /g; s/copy of [0-9 ]* of/copy of N of/; s/ [0-9][0-9.]* / N /g; s/block[13]/blockN/; s/stage [01]/stage N/'
}
explain
weir explain plan.json --profile least.json --json 2>/dev/null | grep -o '"busiest": [0-9].*' |
    sed 's/[0-9][0-9]*/N/g; s/\(, N\)*\]/]/'
plan plan.json least.json 1f1b rows4:dealt 2
explain
python3 - <<'END_OF_PYTHON'
import json
for layer in json.load(open('least.json'))['layers']:
    if layer['kind'] == 'experts':
        dealt, least = (variant['slowest_milli'] for variant in layer['variants'])
        print(layer['name'], 'is more even' if least < 0.9 * dealt else (dealt, least))
END_OF_PYTHON

echo "# refused"
weir profile $small --rows 2 --experts '0+*+1+0+1+0+0'; echo "exit $?"
weir profile $small --rows 2 --experts '0+**+1+0+1+0+0+1'; echo "exit $?"
weir profile $small --rows 2 --experts '*'; echo "exit $?"
plan plan.json 2.json 1f1b "rows2:$two" 2 --replicas 2,1 --shard gradients && weir verify plan.json; echo "exit $?"
plan plan.json 2.json 1f1b "rows2:$two" 2 --optimizer lamb
exit 0
