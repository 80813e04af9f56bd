# What a model's tables are read, in its profile: counted in real micro-batches, the same each time.
exec 2>&1
weir data make-clicks --samples 3000 --slots 3 --numbers 2 --ids 40 --most 2 -o clicks.json >/dev/null
model=dlrm,numbers=2,slots=3,ids=2,rows=30,columns=4,bottom=8,top=8,micro_batch=50
reads() { python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["reads"], indent=1))' $1; }
weir profile $model --data clicks.json --batches 40 -o once.json >table.txt
sed -n '/micro-batches of/,/C3/p' table.txt
weir profile $model --data clicks.json --batches 40 --rows 2 -o twice.json >/dev/null
diff <(reads once.json) <(reads twice.json) && grep -c '"name": "rows2"' twice.json
weir profile --lint once.json | grep -c 'reads'
echo "# as ids they are what weir data counts"
weir profile ${model/rows=30/rows=40} --data clicks.json --batches 40 -o ids.json >/dev/null
weir data clicks.json --reads 50 --batches 40 --json >reads.json
python3 - <<'END'
import json
ours, theirs = json.load(open('ids.json'))['reads'], json.load(open('reads.json'))
print(ours['data'] == theirs['data'] and all(
    (a['reads_milli'], a['reads_p95_milli'], a['unique'][0], a['unique_p95'])
    == (b['reads_milli'], b['reads_p95_milli'], b['unique'], b['unique_p95'])
    for a, b in zip(ours['tables'], theirs['slots'])))
END
echo "# a plan of it is like any other"
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' once.json  # a busy machine's would not be right, which is said
weir partition once.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 --optimizer adagrad \
    -o plan.json >/dev/null
weir check plan.json --profile once.json | tail -n 1
echo "# refused"
weir profile fashion-mlp --data clicks.json; echo "exit $?"
weir profile dlrm --data clicks.json; echo "exit $?"
weir profile $model --data once.json; echo "exit $?"
weir profile $model --batches 3; echo "exit $?"
weir profile $model --data clicks.json --sizes 10,20,50; echo "exit $?"
weir profile $model --data clicks.json --batches 0; echo "exit $?"
