# What routers choose in a run is in its trace, and is compared with what was planned: the counts are those of the
# checkpoint's last update, on threads and in processes; `weir compare` shows them by layer, and --refine takes them.
exec 2>&1
small=gpt-moe-nano,width=32,heads=4,blocks=4,sequence=32,micro_batch=6
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done >text
weir profile $small --data text --batches 20 --rows 2 --experts dealt,blocks \
    --cluster "2 devices, 1GiB, 5GB/s 2us" -o profile.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be trusted, which is said
plan() {  # NAME OPTIONS OF WEIR PARTITION..
    rm -f $1.json
    weir partition profile.json --cluster "16 devices, 1GiB, 5GB/s 2us" --micro-batches 4 "${@:2}" \
        -o $1.json >plan.txt || cat plan.txt
}
train() {  # NAME OPTIONS..
    weir train $small --plan $1.json --data text --steps 4 --rate 0.01 --out $1 --checkpoints $1/kept "${@:2}" \
        >$1.txt 2>&1 || cat $1.txt
}
cat >counts.py <<'END'
import json, struct, sys
def sums(folder, layer):  # of the checkpoint: choices of each expert, and how many were dropped
    data = open(f'{folder}/kept/step-4/{layer}.safetensors', 'rb').read()
    size, = struct.unpack('<Q', data[:8])
    head = json.loads(data[8:8 + size])
    first, end = head[next(key for key in head if key.endswith('router.counts'))]['data_offsets']
    return list(struct.unpack(f'<{(end - first) // 4}f', data[8 + size + first:8 + size + end]))[:9]
def routing(folder):
    return json.load(open(folder + '/measured.trace.json'))['weir']['routing']
def rows(one):  # of the slowest of two devices, over the even share
    own = lambda counts, m: sum(min(n, one['capacity']) for n, on in zip(counts, one['members']) if on == m)
    return 2000 * sum(max(own(counts, 0), own(counts, 1)) for counts in one['counts']) / (
        len(one['counts']) * one['pairs'])
def lost(one):
    return sum(max(0, n - one['capacity']) for counts in one['counts'] for n in counts)
END

echo "# counted"
two="--variants rows2:dealt,rows2:dealt"
plan dealt --ranks 2 --schedule 1f1b $two && train dealt
plan zb --ranks 2 --schedule zb-h1 $two && train zb
plan replicas --schedule 1f1b $two --replicas 2,1 && train replicas
plan alone --schedule 1f1b --ranks 2 --variants -,- && train alone
plan short --ranks 2 --schedule 1f1b $two && train short --batch 22
plan apart --ranks 2 --schedule 1f1b $two
for ((rank = 0; rank < 4; rank++)); do
    WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir train $small --plan apart.json \
        --data text --steps 4 --rate 0.01 --checkpoints apart/kept --out apart --device cpu:queued >rank$rank.txt 2>&1 &
done
wait
python3 - <<'END'
from counts import *
for run in 'dealt', 'zb', 'replicas', 'alone', 'apart':
    found = routing(run)
    print(run, found['batches'], found['steps'])
    for one in found['layers']:
        last = [sum(n) for n in zip(*one['counts'][-4:])]
        kept = sums(run, one['layer'])
        print(' ', one['layer'], 'as in the checkpoint' if last == kept[:8] else (last, kept),
              'drops what is above its capacity' if lost(one) == one['dropped'] > 0 else (lost(one), one['dropped']),
              one.get('members'))
def counted(run):
    return [{key: value for key, value in one.items() if not key.startswith('exchange')}
            for one in routing(run)['layers']]
print('in processes the same', counted('apart') == counted('dealt'))
print('a short micro-batch is left out', routing('short')['batches'])
END

echo "# compared"
weir compare dealt.json dealt/measured.trace.json --profile profile.json --json >compared.json 2>/dev/null
weir compare dealt.json dealt/measured.trace.json --profile profile.json 2>/dev/null | grep -A 3 '^experts' |
    sed 's/[0-9][0-9.]*/N/g; s/  */ /g'
weir compare alone.json alone/measured.trace.json 2>/dev/null | grep -A 3 '^experts' | sed 's/[0-9][0-9.]*/N/g; s/  */ /g'
python3 - <<'END'
from counts import *
planned = {layer['name']: layer for layer in json.load(open('profile.json'))['layers']}
for row, one in zip(json.load(open('compared.json'))['experts'], routing('dealt')['layers']):
    variant = next(v for v in planned[row['layer']]['variants'] if v['name'] == 'rows2:dealt')
    print(row['layer'], abs(row['measured_slowest_milli'] - rows(one)) <= 0.5,
          abs(row['measured_dropped_ppm'] - 1e6 * one['dropped'] / (16 * one['pairs'])) <= 0.5,
          [row['predicted_' + key] == variant[key] for key in ('slowest_milli', 'dropped_ppm')])
END

python3 - <<'END'
from counts import *
causes = [cause for cause in json.load(open('compared.json'))['causes'] if cause['cause'] == 'exchange']
print('exchanges in each stage', sorted((cause['stage'], cause['within']) for cause in causes))
planned = {layer['name']: layer for layer in json.load(open('profile.json'))['layers']}
stage = {name: part['stage'] for part in json.load(open('dealt.json'))['stages'] for name in part['layers']}
for one in routing('dealt')['layers']:  # a stage each
    cause, = (cause for cause in causes if cause['stage'] == stage[one['layer']])
    variant = next(v for v in planned[one['layer']]['variants'] if v['name'] == 'rows2:dealt')
    print(one['layer'], one['exchanges'], cause['predicted_ns'] == variant['communication_ns'],
          abs(cause['measured_ns'] - one['exchange_ns'] / 8) <= 0.5, one['exchange_ns'] > 0)
print('in processes nothing is timed', 'exchanges' not in routing('apart')['layers'][0])
END
weir compare dealt.json dealt/measured.trace.json --profile profile.json 2>/dev/null | grep 'exchange for' |
    sed 's/.*ns  //; s/.*[mu]s  exch/exch/; s/ [0-9.]* [mun]*s/ N/g' | sort

echo "# taken into the profile"
weir compare dealt.json dealt/measured.trace.json --refine profile.json -o refined.json >/dev/null 2>&1
python3 - <<'END'
from counts import *
refined = json.load(open('refined.json'))
print('the routing of the run', refined['routing'] == routing('dealt'))
for one in routing('dealt')['layers']:
    layer = next(l for l in refined['layers'] if l['name'] == one['layer'])
    took = {}
    for variant in layer['variants']:
        members = [e % 2 for e in range(8)] if variant['name'] == 'rows2:dealt' else [e // 4 for e in range(8)]
        print(one['layer'], variant['name'], abs(variant['slowest_milli'] - rows({**one, 'members': members})) <= 1)
        took[variant['name']] = variant
    ratio = lambda key: took['rows2:blocks'][key] / took['rows2:dealt'][key]
    print('  it exchanges in proportion', abs(ratio('communication_ns') / ratio('slowest_milli') - 1) < 0.002)
END
weir place refined.json --cluster "2 devices, 1GiB, 10GB/s 1us" | grep -c '^block'
weir partition refined.json --cluster "4 devices, 1GiB, 5GB/s 2us" --micro-batches 4 --ranks 2 --schedule 1f1b $two \
    -o again.json >/dev/null; echo "exit $?"

echo "# without counts"
weir compare dealt.json dealt/predicted.trace.json --profile profile.json 2>&1 | grep counts
weir compare dealt.json dealt/predicted.trace.json --refine profile.json -o same.json 2>&1 | grep counts
weir compare dealt.json dealt/measured.trace.json --profile refined.json 2>&1 | grep -v 'left out' | sed 's/[0-9a-f]\{32\}/HASH/g'; echo "exit ${PIPESTATUS[0]}"
sed 's/"pairs": 384/"pairs": 385/' dealt/measured.trace.json >wrong.json
weir compare dealt.json wrong.json 2>&1 | grep -v 'left out'; echo "exit ${PIPESTATUS[0]}"
