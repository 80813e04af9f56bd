# Whether a plan belongs to what it is used with: refused, or said in the first line.
model=gpt-nano,width=32,blocks=2,heads=2,sequence=32
weir profile $model --repeats 20 -o profile.json > /dev/null 2>&1
cluster='{"format": "weir.cluster", "version": 1, "devices": [
  {"name": "a", "memory_bytes": 2000000, "speed_permille": 1000}, {"name": "b", "memory_bytes": 2000000, "speed_permille": 1000}],
  "levels": [{"size": 2, "latency_ns": 5000, "bytes_per_second": 1000000000}]}'
echo "$cluster" > large.json
echo "$cluster" | sed 's/2000000/20000/g' > little.json
weir partition profile.json --cluster large.json --schedule 1f1b --micro-batches 4 -o plan.json > /dev/null

echo "# more than its devices have"
weir price profile.json --plan plan.json --cluster little.json -o unfit.json > /dev/null 2>&1
echo "exit $?"
plainly() { sed 's/[0-9a-f]\{32\}/HASH/g; s/[0-9][0-9.]*\( [KM]iB\| ms\| us\| ns\)/T/g; s/[0-9][0-9.]*/N/g'; }
weir verify unfit.json 2> said; echo "exit $?"; plainly < said
printf 'some text, and more of it, so that there is enough to be read by a model that is as small as this one %.0s' {1..20} > text
weir train $model --plan unfit.json --data text --steps 1 2> said; echo "exit $?"; plainly < said
weir simulate unfit.json 2>&1 > /dev/null | plainly
weir simulate unfit.json > /dev/null 2>&1; echo "exit $?"

echo "# edited, and as quick as it was"
python3 - <<'P'
import json
plan = json.load(open('plan.json'))
predicted, costs = plan['predicted'], [stage['costs'] for stage in plan['stages']]
idle = 1 - predicted['bottleneck_stage']
plan['stages'][idle]['memory']['live_peak_bytes'] += 256
json.dump(plan, open('peak.json', 'w'))
plan = json.load(open('plan.json'))
plan['predicted']['bubble']['zb_rate'] = round(plan['predicted']['bubble']['zb_rate'] / 2 + 0.25, 6)
json.dump(plan, open('bubble.json', 'w'))
plan = json.load(open('plan.json'))
plan['predicted']['bottleneck_stage'] = idle
json.dump(plan, open('bottleneck.json', 'w'))
P
for plan in plan peak bubble bottleneck; do
    echo "$plan:"
    weir simulate $plan.json 2>&1 > /dev/null | plainly
done
weir verify bubble.json 2>&1 | plainly

echo "# of another profile, of another model"
sed '0,/"forward_ns": [0-9]*/s//"forward_ns": 123456/' profile.json > newer.json
weir price newer.json --plan plan.json 2>&1 > /dev/null | grep -v untrusted | plainly | head -1
sed 's/"model": "[^"]*"/"model": "another"/' profile.json > another.json
weir price another.json --plan plan.json 2>&1 > /dev/null | grep -v untrusted | head -1
weir price profile.json --cluster large.json --schedule 1f1b --micro-batches 4 --plan plan.json 2>&1 > /dev/null | grep -v untrusted

echo "# a profile nobody should trust"
python3 - <<'P'
import json
profile = json.load(open('profile.json'))
for layer in profile['layers']:
    for key in layer:
        if key.endswith('_ns') and isinstance(layer[key], int):
            layer[key] = 0
    layer.pop('spread', None)
profile.pop('whole', None)
json.dump(profile, open('still.json', 'w'))
P
weir partition still.json --cluster large.json --schedule 1f1b --micro-batches 4 2>&1 > /dev/null | plainly | head -1
weir sweep still.json --cluster large.json --micro-batches 4 --schedule 1f1b 2>&1 > /dev/null | head -1

echo "# a backward before its forward"
trace() { echo "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"0F0\", \"pid\": 0, \"tid\": 0, \"ts\": $1, \"dur\": 5},
  {\"ph\": \"X\", \"name\": \"0B0\", \"pid\": 0, \"tid\": 0, \"ts\": $2, \"dur\": 5}]}"; }
trace 0 10 > good.trace
trace 10 0 > bad.trace
weir simulate --trace good.trace > /dev/null; echo "exit $?"
weir simulate --trace bad.trace 2>&1; echo "exit $?"
