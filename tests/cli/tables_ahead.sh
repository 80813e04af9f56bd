# Tables on the devices of one rank, and dense layers on the same: vectors are looked up one micro-batch ahead, and
# exchanged by messages from the rank to itself, with the bits of one processor.
exec 2>&1
profile() {  # PROFILE MODEL DEVICES PLACES
    weir profile "$2" --rows $3 --tables $4 -o $1 >/dev/null || echo "no profile of $2"
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1
}
plan() {  # PLAN PROFILE SCHEDULE VARIANT OPTIONS..
    rm -f $1
    weir partition $2 --cluster "12 devices, 1GiB, 10GB/s 1us" --schedule $3 --ranks 1 --micro-batches 4 \
        --variants $4,$4 -o $1 "${@:5}" >plan.txt || cat plan.txt
}
run() { weir verify "$@" 2>&1 | tail -n 1 | sed 's/: pipeline and.*//'; }
model="dlrm,numbers=4,rows=50/7/300,columns=12,ids=3,mean,weighted,bottom=16,top=16,micro_batch=8,exchange"
mixed=all/columns0+2/rows0+1

echo "# by messages"
profile many.json "$model" 3 slots,columns,rows,$mixed
for places in slots columns rows $mixed; do
    plan plan.json many.json tables-ahead rows3:$places --optimizer adagrad
    echo "$places: $(run plan.json) $(run plan.json --clip 0.01) $(run plan.json --batch 27)"
done
queues=cpu:queued,cpu:queued,cpu:queued
echo "on a device that runs ahead: $(run plan.json --device cpu:queued), on one for each: $(run plan.json --device $queues)"
together() {  # PROCESSES COMMAND..
    for ((rank = 0; rank < $1; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$1 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "${@:2}" >rank$rank.txt 2>&1 &
    done
    wait
}
together 3 weir verify plan.json --device cpu:queued
echo "in processes: $(tail -n 1 rank0.txt | sed 's/: pipeline and.*//')"
# Where there are no such parts, nothing is said.
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS timeout -k 5 300 mpirun -n 3 weir verify plan.json --device cpu:queued,mpi >mpi.txt 2>&1
    tail -n 1 mpi.txt | grep -q '^equal: ' || cat mpi.txt
fi
played=$WEIR_BUILD/tests/weir_cuda/played
for device in cuda cuda:0,cuda:1,cuda:2; do
    [ ! -e $played/weir-cuda.so ] || PLAYED_GPUS=3 WEIR_PLUGINS=$played run plan.json --device $device | grep -v '^equal'
done
profile wide.json "wide-and-deep,numbers=3,rows=50/7/300,columns=6,ids=2,top=16,micro_batch=8,exchange" 2 rows
plan plan.json wide.json tables-ahead rows2:rows
echo "two layers of tables: $(run plan.json)"
plan plan.json wide.json interleaved rows2:rows --pin wide.exchange=0 --pin exchange=0
echo "exchanged within a stage: $(run plan.json)"

echo "# trained, and evaluated meanwhile"
weir data make-clicks --samples 2000 --seed 3 -o clicks.json >data.txt || cat data.txt
one="dlrm,rows=60,columns=8,bottom=16,top=16,micro_batch=16,exchange"
profile on2.json "$one" 2 rows
plan on2.plan on2.json tables-ahead rows2:rows --optimizer adagrad
train="weir train $one --plan on2.plan --data clicks.json --steps 6 --rate 0.02 --every 4"
$train --checkpoints one >one.txt 2>&1 || cat one.txt
$train --checkpoints devices --device cpu:queued,cpu:queued >devices.txt 2>&1 || cat devices.txt
together 2 $train --checkpoints processes --device cpu:queued
for folder in devices processes; do
    diff -r one/step-6 $folder/step-6 && echo "$folder: the same bits"
done
grep -h 'peak bytes, rank 0' one.txt rank0.txt | awk '{ print $5 == $6 ? "bytes as planned" : $0 }'

echo "# in another order, from a file; and where stages have ranks of their own"
cat >turns.json <<'END'
{ "format": "weir.schedule", "version": 1, "name": "turns", "weights": "flush", "ranks": 1, "stages": 2, "micro_batches": 4,
  "exchanges": true, "routes": [[0, 0]], "route_of": [0, 0, 0, 0],
  "actions": ["0F0 1F0 1B0 0B0 0F1 0F2 1F1 1F2 1B2 0B2 1B1 0B1 0F3 1F3 1B3 0B3 0STEP 1STEP"] }
END
plan plan.json many.json turns.json rows3:$mixed
echo "$(run plan.json)"
weir partition many.json --cluster "6 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --ranks 2 --micro-batches 4 \
    --variants rows3:rows,rows3:rows --pin tables=0 --pin exchange=1 -o two.json >/dev/null
echo "1f1b: $(run two.json)"

echo "# planned in front of the exchange, whose time is a message's"
plan plan.json many.json tables-ahead rows3:rows
grep -A 9 '^  stage  layers' plan.txt | awk 'NF && $1 ~ /^[01]$/ && / \.\. / { print $1, $2, $3, $4 }'
python3 - plan.json many.json <<'END'
import json, sys
plan, profile = (json.load(open(name)) for name in sys.argv[1:])
exchange, = (layer for layer in profile['layers'] if layer['kind'] == 'exchange')
variant, = (variant for variant in exchange['variants'] if variant['name'] == 'rows3:rows')
print(plan['stages'][0]['costs']['exchange_ns'] == variant['communication_ns'] > 0)
END
weir explain plan.json --profile many.json | grep -o "exchanges between stages" && weir check plan.json --profile many.json | tail -n 1 | sed 's/ up to.*//'
sed 's/"exchange_ns": /"exchange_ns": 1/' plan.json >other.json
weir check other.json --profile many.json 2>&1 | sed 's/ says [0-9]*, its profile gives [0-9]*/ says another/'

echo "# simulated: all exchanges but the first and the last are beside dense layers"
weir schedule tables-ahead --ranks 1 --micro-batches 4 --format json -o order.json >/dev/null
cat >costs.json <<'END'
{ "format": "weir.costs", "version": 1, "costs": [
  { "forward_ns": 2, "backward_ns": 3, "backward_input_ns": 1, "backward_weight_ns": 2, "exchange_ns": 5, "output_bytes": 8 },
  { "forward_ns": 6, "backward_ns": 9, "backward_input_ns": 4, "backward_weight_ns": 5 } ] }
END
weir simulate order.json --cost costs.json | head -n 12
weir simulate tables-ahead --ranks 1 --micro-batches 4 --cost 3us,1us,1us,4us | grep '^time'
sed 's/"exchanges": true,//' order.json >within.json
weir simulate within.json --cost costs.json | grep iteration

weir simulate order.json --cost costs.json --format trace -o run.trace
grep -c '"tid":2,"ts"' run.trace
weir simulate --trace run.trace | grep '^send'
weir compare order.json run.trace --cost costs.json 2>&1 | grep -E '^(iteration|unexplained)|all of them'

echo "# refused"
weir schedule tables-ahead --ranks 2 --micro-batches 4; echo "exit $?"
weir schedule tables-ahead --ranks 1 --micro-batches 4 --format csv; echo "exit $?"
weir profile gpt-nano,exchange; echo "exit $?"
sed 's/"exchanges": true/"exchanges": 1/' order.json >broken.json
weir check broken.json; echo "exit $?"
for format in megatron pytorch; do
    weir export $format plan.json -o exported; echo "exit $?"
done

echo "# an order that exchanges with the two stages on two ranks is refused"
echo '{ "format": "weir.schedule", "version": 1, "name": "apart", "weights": "flush", "ranks": 2, "stages": 2,
  "micro_batches": 2, "exchanges": true, "routes": [[0, 1]], "route_of": [0, 0],
  "actions": ["0F0 0F1 0B0 0B1 0STEP", "1F0 1B0 1F1 1B1 1STEP"] }' >apart.json
weir partition wide.json --cluster "4 devices, 1GiB, 1GB/s 5us" --schedule apart.json --ranks 2 --micro-batches 2 \
    --variants rows2:rows,rows2:rows 2>&1 | grep 'exchanges, so' | sed 's/.*tried): //'
