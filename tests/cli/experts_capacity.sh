# A plan chooses the capacity of experts: of several profiles the one that drops the fewest choices and fits. It records
# the choice, and is verified and trained with that and no other.
exec 2>&1
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=6
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
for capacity in dropless 2 1.25 1; do
    weir profile $small,capacity=$capacity --data text --batches 20 --rows 2 --experts dealt -o moe-$capacity.json \
        >/dev/null
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' moe-$capacity.json  # a busy machine's would not be trusted
done
partition() {  # MEMORY PROFILES AND OPTIONS..
    rm -f plan.json
    weir partition "${@:2}" --cluster "4 devices, $1, 5GB/s 2us" --schedule 1f1b --micro-batches 4 --ranks 2 \
        --variants rows2:dealt,rows2:dealt -o plan.json >plan.txt 2>&1
    echo "exit $?"
}
chosen() {
    python3 - <<'END'
import json
plan = json.load(open('plan.json'))
capacity = plan['profile']['model'].split('capacity=')[1]
routing = json.load(open(f'moe-{capacity}.json'))['routing']
counts = [(n, one.get('capacity', 1 << 30)) for one in routing['layers'] for row in one['counts'] for n in row]
dropped = sum(max(0, n - most) for n, most in counts) / sum(n for n, _ in counts)
said = plan['notes'].split(' drops ')[1].split(' %')[0]
print('capacity', capacity, 'which drops as many as are said', abs(float(said) - 100 * dropped) <= 0.01,
      plan['notes'] in ' '.join(open('plan.txt').read().split()))
END
}

for memory in 1GiB 1200KiB 1100KiB; do
    echo "# with $memory"
    partition $memory moe-*.json; chosen
    grep -o '^weir: [^:]*: no plan fits' plan.txt
    weir verify plan.json | tail -n 1 | sed 's/: pipeline and.*//'
done
weir check plan.json --profile moe-1.json | tail -n 1 | sed 's/ up to.*//; s/, and every.*//'
weir train $small --plan plan.json --data text --steps 2 2>&1 | tail -n 1 | cut -c1-75
weir train $small,capacity=1 --plan plan.json --data text --steps 2 2>&1 | grep -c 'experts in the last'
partition 1000KiB moe-*.json; head -n 4 plan.txt | cut -c1-60

echo "# with a limit of what may be dropped"
most=$(python3 - <<'END'
import json
one = json.load(open('moe-1.25.json'))['routing']['layers']
print(round(sum(max(0, n - l['capacity']) for l in one for row in l['counts'] for n in row)
            / sum(l['pairs'] * 20 for l in one) * 100 + 0.1, 1))
END
)
partition 1200KiB moe-*.json --most-dropped $most%; chosen
partition 1100KiB moe-*.json --most-dropped $most%; grep -c 'no plan fits' plan.txt
partition 1GiB moe-1.json --most-dropped 1%; sed 's/[0-9.]* %/N %/' plan.txt
partition 1GiB moe-2.json --most-dropped 50%; chosen

echo "# refused"
weir profile $small,capacity=3 -o other.json >/dev/null
partition 1GiB moe-2.json other.json; cat plan.txt
partition 1GiB moe-2.json moe-2.json; cat plan.txt
weir profile $small,capacity=3 --data text --batches 19 -o few.json >/dev/null
partition 1GiB moe-2.json few.json; cat plan.txt
weir profile gpt-nano,width=32,heads=4,blocks=2,sequence=32,micro_batch=6 -o dense.json >/dev/null
partition 1GiB dense.json --most-dropped 5%; cat plan.txt
partition 1GiB moe-2.json --most-dropped 5; head -n 1 plan.txt
