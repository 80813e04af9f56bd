# Stages cut into segments that exchange: made, proved, simulated, drawn, and run with real exchanges, with the bits of
# one processor.
exec 2>&1
echo "# pass by pass in turns"
weir schedule dualpipev --ranks 2 --micro-batches 4 --segments 2 --width 100
weir schedule 1f1b --ranks 1 --micro-batches 2 --segments 3,1
weir schedule 1f1b --ranks 2 --micro-batches 2 --segments 2 --lowered --format json | grep -E 'name|stages|exchanges|actions|SEND'

cat >mine.json <<'JSON'
{ "format": "weir.schedule", "version": 1, "name": "mine", "weights": "flush", "ranks": 1, "stages": 1,
  "micro_batches": 3, "routes": [[0]], "route_of": [0, 0, 0], "actions": ["0F2 0F0 0B2 0F1 0B0 0B1 0STEP"] }
JSON
weir schedule mine.json --segments 2 --width 60
weir check mine.json --segments 2,3 | head -n 1

echo "# of every schedule"
for schedule in $(weir schedule --help | sed -n 's/^  \([a-z0-9-]*\) .*/\1/p' | grep -vE '^(weir|search|tables-ahead)$'); do
    for open in 1 2 3; do
        weir check $schedule --ranks 4 --micro-batches 8 --segments 3,$open >check.txt || cat check.txt
        grep -q 'rendezvous sends suffice' check.txt || cat check.txt
    done
done

echo "# what it gains, if all exchanges of a micro-batch take 0.3 of its computation"
cat >costs.json <<'JSON'
{ "format": "weir.costs", "version": 1, "costs": [
  { "forward_ns": 40, "backward_ns": 80, "backward_input_ns": 40, "backward_weight_ns": 40, "exchange_ns": 27 } ] }
JSON
for schedule in 1f1b zb-h1 interleaved zb-v dualpipe dualpipev; do
    for open in 1 2; do
        weir simulate $schedule --ranks 4 --micro-batches 16 --segments 3,$open --cost costs.json --json |
            sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p'
    done | paste -s | awk -v name=$schedule '{ printf "%-12s %d in turn, %d overlapped: %.3f\n", name, $1, $2, $1 / $2 }'
done
weir simulate dualpipev --ranks 2 --micro-batches 4 --segments 2 --cost costs.json --width 110
weir simulate zb-v --ranks 2 --micro-batches 4 --segments 2 --cost costs.json --format svg -o run.svg
echo "lanes of exchanges: $(grep -c '>exchange<' run.svg)"
weir simulate zb-v --ranks 2 --micro-batches 4 --segments 2 --cost costs.json --format trace -o run.trace
weir simulate --trace run.trace | grep -c '^send'
weir schedule zb-v --ranks 2 --micro-batches 4 --segments 2 --format json -o zb-v.json
weir compare zb-v.json run.trace --cost costs.json 2>&1 | grep -E '^(iteration|unexplained)|all of them'

echo "# tables and dense layers as segments: exchanged by members, and whole models in segments"
profile() {  # PROFILE MODEL OPTIONS..
    weir profile "$2" "${@:3}" -o $1 >/dev/null || echo "no profile of $2"
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1
}
verify() {  # SCHEDULE RANKS PROFILE OPTIONS..
    rm -f order.json plan.json
    weir schedule $1 --ranks $2 --micro-batches 8 --segments $segments --format json -o order.json
    weir partition $3 --cluster "8 devices, 1GiB, 10GB/s 1us" --schedule order.json --ranks $2 --micro-batches 8 \
        -o plan.json "${@:4}" >plan.txt || cat plan.txt
    echo "$1: $(weir verify plan.json 2>&1 | tail -n 1 | sed 's/: pipeline and.*//')" \
        "$(weir verify plan.json --device ${queues:-cpu:queued} 2>&1 | tail -n 1 | sed 's/: pipeline and.*//')"
}
together() {  # PROCESSES COMMAND..
    for ((rank = 0; rank < $1; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$1 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "${@:2}" >rank$rank.txt 2>&1 &
    done
    wait
    echo "in processes: $(tail -n 1 rank0.txt | sed 's/: pipeline and.*//')"
}
played=$WEIR_BUILD/tests/weir_cuda/played
play() {  # DEVICES, where the played plug-in is built; says nothing if all is well
    [ ! -e $played/weir-cuda.so ] || PLAYED_GPUS=2 WEIR_PLUGINS=$played weir verify plan.json --device $1 2>&1 |
        tail -n 1 | grep -v '^equal'
}
segments=2
clicks="dlrm,numbers=4,rows=50/7/300,columns=12,ids=3,bottom=16,top=16,micro_batch=8,exchange"
profile clicks.json "$clicks" --rows 2 --tables slots
queues=cpu:queued,cpu:queued  # one for each member
for schedule in gpipe 1f1b zb-h1; do
    verify $schedule 1 clicks.json --variants rows2:slots,rows2:slots
done
dense="dlrm,rows=60,columns=8,bottom=16/16,top=16/16,micro_batch=16"
together 2 weir verify plan.json --device cpu:queued
play cuda:0,cuda:1
queues=
profile dense.json "$dense"
for schedule in zb-v dualpipev; do
    verify $schedule 2 dense.json
done
together 2 weir verify plan.json --device cpu:queued
play cuda:0,cuda:1
weir data make-clicks --samples 2000 --seed 3 -o data.json >data.txt || cat data.txt
weir train "$dense" --plan plan.json --data data.json --steps 3 >train.txt 2>&1 || cat train.txt
awk '/peak bytes, rank/ { print $5 == $6 ? "bytes as planned" : $0 }' train.txt

echo "# refused"
weir schedule tables-ahead --ranks 1 --micro-batches 4 --segments 2; echo "exit $?"
weir schedule 1f1b --ranks 2 --micro-batches 4 --segments 65; echo "exit $?"
weir schedule 1f1b --ranks 2 --micro-batches 4 --segments 3,0; echo "exit $?"
weir simulate zb-v.json --segments 2 --cost costs.json; echo "exit $?"
weir simulate plan.json --segments 2; echo "exit $?"
weir schedule 1f1b --ranks 2 --micro-batches 2 --lowered --format json -o lowered.json
weir schedule lowered.json --segments 2; echo "exit $?"
python3 - <<'PYTHON'
import json
mine = json.load(open('mine.json'))
times = dict.fromkeys(('forward_ns', 'backward_ns', 'backward_input_ns', 'backward_weight_ns', 'recompute_ns', 'step_ns'), 1)
sizes = dict.fromkeys(('output_bytes', 'kept_forward_bytes', 'kept_weight_bytes', 'transient_bytes', 'fixed_bytes',
                       'version_bytes'), 0)
mine['costs'] = [times | sizes]
mine['actions'] = mine.pop('actions')
json.dump(mine, open('priced.json', 'w'))
PYTHON
weir check priced.json --segments 2; echo "exit $?"
weir schedule 1f1b --ranks 2 --micro-batches 4 --segments 2 --format csv; echo "exit $?"
