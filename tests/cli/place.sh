# Tables placed on devices, with a bound; what is asked wrongly is refused.
if [ ! -x "$WEIR_LIBEXEC/weir-glpk" ]; then
    echo '# skip: weir-glpk is not built here (libglpk-dev)'
    exit 77
fi
sed -n '/^```json$/,/^```$/p' "$ROOT/docs/formats/tables.md" | sed '1d;$d' > tables.json
four='4 devices, 1GiB, 12GB/s 5us'
weir place tables.json --cluster "$four" --optimizer adagrad; echo "exit $?"

echo "# as a document, twice the same"
weir place tables.json --cluster "$four" --json -o once.json
weir place tables.json --cluster "$four" --json -o twice.json
cmp once.json twice.json && grep -c '"way"' once.json

echo "# less memory splits tables, and a number a row forbids columns"
weir place tables.json --cluster "$four" --memory 180MiB --optimizer adagrad-rows --seconds 0 | sed -n '2,5p;/takes/p'

echo "# what the members have no room for is on the host"
weir place tables.json --cluster '2 nodes x 2 devices, 100MiB, 12GB/s 5us, 1GB/s 20us, host 1GiB 10GB/s' --seconds 0 |
    sed -n '2,5p;/slowest/p'

echo "# without GLPK the bound is that of sums"
mkdir none
printf '#!/bin/sh\nexit 1\n' > none/weir-glpk
chmod +x none/weir-glpk
WEIR_LIBEXEC=$PWD/none weir place tables.json --cluster "$four" | grep -E 'takes? less|take '

echo "# a profile with what is read of its tables, as it is, and copied by hand into a tables document"
weir data make-clicks --samples 4000 --slots 3 --numbers 2 --ids 5000 --most 2 -o clicks.json >/dev/null
model=dlrm,numbers=2,slots=3,ids=2,rows=3000,columns=8,bottom=8,top=8,micro_batch=64
weir profile $model --data clicks.json --batches 12 -o measured.json >/dev/null
python3 - <<'END'
import json
profile = json.load(open('measured.json'))
for layer in profile['layers']:  # any machine's times
    layer['forward_ns'] = layer['backward_ns'] = 64000
profile['source'].update(sum_ns=128000 * len(profile['layers']), whole_ns=0)
json.dump(profile, open('profile.json', 'w'))
reads = profile['reads']['tables']
others = [layer for layer in profile['layers'] if layer['name'] != 'tables']
shared = sum(layer['output_bytes'] + layer['saved_bytes'] for layer in others) + max(
    max(layer['workspace_bytes'], layer['backward_workspace_bytes']) for layer in profile['layers'])
ids = [-(-64 * table['reads_milli'] // 1000) for table in reads]
json.dump({
    'format': 'weir.tables', 'version': 1, 'model': profile['model'], 'columns': 8, 'number_bytes': 4, 'batch': 64,
    'micro_batches': 6,  # half of the way from 4 to 8
    'dense_bytes': sum(3 * layer['parameter_bytes'] for layer in others) + -(-shared // 4),
    'rates': [{'above_bytes': 0, 'fixed_ps': 0, 'row_ps': 0, 'bytes_per_second': sum(ids) * 32 * 10**9 // 64000}],
    'tables': [{'name': table['name'], 'rows': 3000, 'reads_milli': table['reads_milli'],
                'reads_p95_milli': table['reads_p95_milli'],
                'unique': table['unique'][2] + -(-(table['unique'][3] - table['unique'][2]) // 2)}
               for table in reads]}, open('by_hand.json', 'w'))
END
weir place profile.json --cluster "$four" --optimizer adagrad -m 6 --seconds 0 | head -n 4
weir place profile.json --cluster "$four" --optimizer adagrad -m 6 --json -o one.json
weir place by_hand.json --cluster "$four" --optimizer adagrad --json -o other.json
cmp one.json other.json
weir place - --cluster "$four" --optimizer adagrad -m 6 --json <profile.json | cmp - one.json

echo "# refused"
weir place tables.json --cluster '4 devices, 40MiB, 12GB/s 5us' 2>&1; echo "exit $?"
weir place tables.json 2>&1; echo "exit $?"
weir place tables.json --cluster "$four" --optimizer adam 2>&1; echo "exit $?"
sed 's/"unique": 24}/"unique": 25}/' tables.json > wrong.json
weir place wrong.json --cluster "$four" 2>&1; echo "exit $?"
weir place tables.json --cluster "$four" --memory 20MiB 2>&1; echo "exit $?"
weir place profile.json --cluster "$four" 2>&1; echo "exit $?"
weir place profile.json --cluster "$four" -m 13 2>&1; echo "exit $?"
weir place profile.json --cluster "$four" -m 4 --layer wide 2>&1; echo "exit $?"
weir place tables.json --cluster "$four" -m 4 2>&1; echo "exit $?"
python3 -c 'import json; profile = json.load(open("profile.json")); del profile["reads"]; print(json.dumps(profile))' >unread.json
weir place unread.json --cluster "$four" -m 4 2>&1; echo "exit $?"

echo "# its placement, profiled, planned and run"
weir place profile.json --cluster "4 devices, 1GiB, 12GB/s 5us" -m 4 --seconds 0 --json -o found.json
places=$(sed -n 's/^  "places": "\(.*\)",$/\1/p' found.json)
weir profile $model --rows 4 --tables $places -o placed.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' placed.json
weir partition placed.json --cluster "4 devices, 1GiB, 12GB/s 5us" --ranks 1 --schedule gpipe --micro-batches 4 \
    --variants rows4:$places -o placed.plan.json >plan.txt || cat plan.txt
weir verify placed.plan.json | tail -n 1

echo "# a profile that places by itself, as weir place does for it"
weir profile $model --data clicks.json --batches 12 --rows 4 --tables least,slots -m 4 --optimizer adagrad \
    --cluster "$four" -o least.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' least.json
words=$(weir place least.json --cluster "$four" -m 4 --optimizer adagrad --seconds 0 | sed -n 's/^In the words.*: //p')
grep -q "\"$words\"" least.json && echo "the words of weir place"
weir partition least.json --cluster "$four" --ranks 1 --schedule gpipe --micro-batches 4 --optimizer adagrad \
    --variants $words -o least.plan.json >plan.txt || cat plan.txt
weir verify least.plan.json | tail -n 1
for wrong in "--rows 2" "--rows 2,4" "--optimizer adam"; do
    weir profile $model --data clicks.json --rows 4 --tables least -m 4 --cluster "$four" $wrong 2>&1 | head -n 1
done
weir profile $model --data clicks.json --optimizer adagrad 2>&1 | head -n 1
weir profile $model --data clicks.json --rows 4 --tables slots -m 4 2>&1 | head -n 1
weir profile wide-and-deep,numbers=2,slots=3,ids=2,rows=3000,columns=8,micro_batch=64 --data clicks.json --batches 12 \
    --rows 4 --tables least -m 4 --cluster "$four" 2>&1; echo "exit $?"
