# Orders of no generator: a file is planned as it is, and that very order is simulated, verified, trained and exported.
exec 2>&1
model=gpt-nano,width=32,blocks=3,heads=2,sequence=32
weir profile $model --repeats 20 -o measured.json > /dev/null
# As if all were measured to be round, so that plans are the same everywhere.
python3 - <<'P'
import json
profile = json.load(open('measured.json'))
for layer in profile['layers']:
    layer.update(forward_ns=1000000, backward_input_ns=1000000, backward_weight_ns=1000000, backward_ns=2000000)
    layer.pop('spread', None)
    layer.pop('recompute_ns', None)
profile['source'] = {'how': 'estimated', 'device': 'none', 'clock': 'none', 'repeats': 1, 'backward_split': 'assumed',
                     'sum_ns': 3000000 * len(profile['layers']), 'whole_ns': 3000000 * len(profile['layers'])}
json.dump(profile, open('profile.json', 'w'))
P
cluster="2 devices, 960KiB, 10GB/s 5us"
time_of() { sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p' "$1" | head -1; }
plan() { weir partition profile.json --cluster "$cluster" "$@"; }

echo "# a generator's order from a file takes what it takes by name, cuts and recomputation the same"
plan --schedule 1f1b --micro-batches 4 -o named.json | grep -o 'Proved optimal'
weir schedule 1f1b --ranks 2 --micro-batches 4 --format csv -o 1f1b.csv
weir schedule 1f1b --ranks 2 --micro-batches 4 --format json -o 1f1b.json
for file in 1f1b.csv 1f1b.json; do
    plan --schedule ./$file -o given.json | grep -o 'Proved optimal'
    [ -s given.json ] && [ "$(time_of named.json)" = "$(time_of given.json)" ] && echo "$file: the same time"
    grep '"recompute"' -A2 named.json > a; grep '"recompute"' -A2 given.json > b; cmp a b && echo "$file: the same plan"
    weir verify given.json | tail -1
done
sed -n '/"schedule": {/,/^  }/p' given.json

echo "# an order of no name"
printf '0F0,0F1,0F2,0B1,0B0,0F3,0B3,0B2\n1F1,1F0,1I1,1I0,1W0,1W1,1F2,1F3,1B3,1B2\n' > mine.csv
plan --memory 2MiB --schedule mine.csv -o plan.json > /dev/null; echo "exit $?"
weir check plan.json | head -1
weir simulate plan.json | sed -n '1p'
[ "$(weir simulate plan.json --json | sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p')" = "$(time_of plan.json)" ] && echo "simulated as planned"
[ "$(weir simulate named.json --schedule mine.csv --json | sed -n 's/.*"schedule": //p')" = '"mine",' ] && echo "on the cuts of another plan"
weir verify plan.json | tail -1
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json --device cpu:queued > said.$rank 2>&1 &
done
wait
tail -qn 1 said.0
printf 'some text, and more of it, so that there is enough to be read by a model that is as small as this one %.0s' {1..500} > text
weir train $model --plan plan.json --data text --steps 2 > /dev/null; echo "trained, exit $?"
weir export pytorch-csv plan.json 2> /dev/null | tr -d '\r'
weir export megatron plan.json; echo "exit $?"
weir check plan.json --profile profile.json; echo "exit $?"
weir explain plan.json --profile profile.json | grep -c ' on device\| schedule '
weir price profile.json --plan plan.json > /dev/null; echo "priced, exit $?"
weir keep profile.json --plan plan.json | tail -1

echo "# with its messages, and with updates of its own"
weir schedule zb-v --ranks 2 --micro-batches 4 --lowered --format csv -o lowered.csv > /dev/null
plan --memory 2MiB --schedule lowered.csv -o lowered.json | grep -v '^ \|^$\|iteration'
weir verify lowered.json | tail -1

echo "# found for what a plan's stages cost"
weir schedule search --ranks 2 --micro-batches 4 --cost named.json --objective makespan -o found.json > /dev/null
plan --memory 4MiB --schedule ./found.json -o plan.json > /dev/null && weir verify plan.json | tail -1

echo "# that says when stages run again"
again() {
    python3 - "$@" << 'P'
import json, sys
order = json.load(open('1f1b.json'))
order.update(name='again', actions=sys.argv[1:])
json.dump(order, open('again.json', 'w'))
P
    plan --memory 1120KiB --schedule ./again.json -o plan.json | grep -o 'Proved optimal'
    sed -n 's/.*\("again_bytes": [0-9]*\|"peak_bytes": [0-9]*\).*/\1/p' plan.json
    weir check plan.json --profile profile.json
    weir simulate plan.json | sed -n '/^rank  /,/^$/p'
    weir verify plan.json | tail -1
}
again '0F0 0F1 0R0 0B0 0F2 0R1 0B1 0F3 0R2 0B2 0R3 0B3 0STEP' '1F0 1B0 1F1 1R1 1B1 1F2 1B2 1F3 1B3 1STEP'
weir train $model --plan plan.json --data text --steps 2 > /dev/null; echo "trained, exit $?"
weir export pytorch-csv plan.json; echo "exit $?"

echo "# refused"
refuse() { printf '%b' "$1" > bad.csv; plan --schedule bad.csv; echo "exit $?"; }
refuse '0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n'
refuse '0B0,0F0\n1F0,1B0\n'
refuse '0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n'
refuse '0F0,0junk\n'
weir schedule pipedream --ranks 2 --micro-batches 4 --format json -o pipedream.json; plan --schedule ./pipedream.json; echo "exit $?"
plan --schedule mine.csv --micro-batches 8; echo "exit $?"
plan --schedule mine.csv --ranks 1; echo "exit $?"
plan --schedule mine.csv --replicas 1,1; echo "exit $?"
plan --schedule nowhere.csv; echo "exit $?"
plan --schedule mine; echo "exit $?"
plan --schedule 1f1b; echo "exit $?"
weir simulate plan.json --micro-batches 8; echo "exit $?"
weir train $model --plan given.json --data text --steps 4 --checkpoints kept --save-every 2 --elastic profile.json; echo "exit $?"
