# What is written can be read: a number that no document can hold is refused, and there is no document.
weir profile gpt-nano,width=32,blocks=1,heads=2,sequence=32 -o profile.json > /dev/null
# Sizes that a profile can have, and that add up to more than 2^53 - 1 over the micro-batches.
for key in saved_bytes output_bytes workspace_bytes; do
    python3 - $key <<'END'
import json
import sys

profile = json.load(open('profile.json', encoding='utf-8'))
profile['source']['whole_ns'] = 0  # a busy machine's would be untrusted, which is said
for layer in profile['layers']:
    layer[sys.argv[1]] = (2**53 - 1) // (1 if sys.argv[1] == 'workspace_bytes' else 8)
json.dump(profile, open('large.json', 'w', encoding='utf-8'))
END
    weir price large.json --cuts 2,2 --cluster '2 devices, 8000TiB, 100000GB/s 20us' --schedule gpipe \
        --micro-batches 16 -o plan.json 2>&1 > /dev/null | sed 's/would be [0-9]*/would be N/; s/take .* ns, and would hand on .* GFLOP/take N ns, and would hand on N GB and compute N GFLOP/'
    echo "$key: exit ${PIPESTATUS[0]}"
    [ ! -e plan.json ] || weir check plan.json
done
