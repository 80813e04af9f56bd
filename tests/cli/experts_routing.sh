# The routing of real micro-batches in a profile: that of a training's first step, by first weights and by those of a
# checkpoint; the same bytes twice; and what is refused.
exec 2>&1
ln -s "$ROOT/docs" text  # any text
text=text
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=4,dropout=0
profile() { weir profile "$@" -o out.json >/dev/null && sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' out.json; }
keep() { python3 -c 'import json, sys; json.dump(json.load(open("out.json"))["routing"], open(sys.argv[1], "w"))' $1; }

profile $small --data $text --batches 3 && keep first.json
weir partition out.json --cluster "1 devices, 1GiB, 5GB/s 2us" --schedule gpipe --micro-batches 1 -o plan.json \
    >/dev/null
weir train $small --plan plan.json --data $text --steps 3 --rate 0.003 --checkpoints kept --save-every 1 --keep 9 \
    >/dev/null 2>&1
profile $small --data $text --batches 3 --weights kept/step-1 && keep second.json
profile $small --data $text --batches 3 --weights kept/step-1 && keep again.json
cmp second.json again.json && echo "the same bytes twice"
python3 - <<'END'
import json, struct
def counts(step, layer):
    data = open(f'kept/step-{step}/{layer}.safetensors', 'rb').read()
    size, = struct.unpack('<Q', data[:8])
    tensor = json.loads(data[8:8 + size])[next(k for k in json.loads(data[8:8 + size]) if k.endswith('router.counts'))]
    first, end = tensor['data_offsets']
    return list(struct.unpack(f'<{(end - first) // 4}f', data[8 + size + first:8 + size + end]))[:8]
for name, batch in ('first', 0), ('second', 1):
    routing = json.load(open(name + '.json'))
    for layer in routing['layers']:
        trained = counts(batch + 1, layer['layer'])
        print(name, layer['layer'], 'as in training' if trained == layer['counts'][batch] else
              (trained, layer['counts'][batch]))
END
profile $small,capacity=dropless --data $text --batches 3 && keep dropless.json
diff <(grep -o '"counts".*\]\]' first.json | head -c 60) <(grep -o '"counts".*\]\]' dropless.json | head -c 60) &&
    echo "what is chosen in the first layer does not depend on the capacity"

echo "# placed on two members, by the routing"
two="2 devices, 1GiB, 10GB/s 1us"
weir place out.json --cluster "$two" --json -o once.json && weir place out.json --cluster "$two" --json -o twice.json
cmp once.json twice.json && python3 - <<'END'
import json
routing, placed = json.load(open('out.json'))['routing'], json.load(open('once.json'))
for layer, put in zip(routing['layers'], placed['layers']):
    slowest = sum(max(sum(n if member == m else -(-n // 2) if member == '*' else 0
                          for n, member in zip(counts, put['members'])) for m in (0, 1)) for counts in layer['counts'])
    dropped = sum(max(0, n - -(-layer['pairs'] * 5 // 32)) for counts in layer['counts'] for n in counts)
    copies = put['members'].count('*')
    whole = put['slowest_milli'] + copies * put['copy_milli']
    print(put['layer'], (1000 * slowest + 1) // 3 == put['slowest_milli'],
          put['bound_milli'] <= whole + copies <= put['without_copies_milli'] + copies,
          put['without_copies_milli'] <= min(rule['slowest_milli'] for rule in put['rules']),
          put['capacities'][1] == {'factor_milli': 1250, 'dropped_ppm': 10**6 * dropped // (3 * layer['pairs'])})
END
weir place out.json --cluster "$two" | sed -n '1p;/^block/p' | cut -c1-14

echo "# refused"
cat >unlike.json <<'END'
{"format": "weir.cluster", "version": 1, "devices": [
  {"name": "a", "memory_bytes": 1073741824, "speed_permille": 1000},
  {"name": "b", "memory_bytes": 1073741824, "speed_permille": 500}],
 "levels": [{"size": 2, "latency_ns": 1000, "bytes_per_second": 1000000000}]}
END
weir place out.json --cluster unlike.json; echo "exit $?"
for wrong in "--optimizer adagrad" "--layer block1.experts" "--memory 1GiB" "--seconds 3"; do
    weir place out.json --cluster "$two" $wrong; echo "exit $?"
done
weir profile gpt-nano --data $text; echo "exit $?"
weir profile $small --data $text --rows 2; echo "exit $?"
weir profile $small --data $text --weights nowhere; echo "exit $?"
weir profile $small --weights kept; echo "exit $?"
weir profile $small --data $text --weights kept --device cpu:bf16; echo "exit $?"
weir profile $small,experts=4 --data $text --weights kept; echo "exit $?"
weir profile $small --data $text --batches 70000; echo "exit $?"
