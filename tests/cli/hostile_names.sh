# Names may hold what steers a terminal. Tables, messages and cells spell it out; documents keep it.
model=gpt-nano,width=32,blocks=1,heads=2,sequence=32
weir profile $model -o plain.json > /dev/null
python3 - <<'END'
import json

def poison(value, salt):
    return f'\x1b[2K\x07{value}\n\x7f\x9bé日{salt}'

profile = json.load(open('plain.json', encoding='utf-8'))
for number, layer in enumerate(profile['layers']):
    layer['name'] = poison('l', number)
profile['source']['whole_ns'] = 0  # a busy machine's would be untrusted, which is said
profile['model'] = poison(profile['model'], '')
profile['source']['device'] = profile['source']['clock'] = profile['notes'] = poison('clock', '')
json.dump(profile, open('q\x1b[2K\n.json', 'w', encoding='utf-8'), ensure_ascii=False)
profile['layers'][0]['forward_ns'] = -1
json.dump(profile, open('wrong\x1b.json', 'w', encoding='utf-8'))
END
profile=$(echo q*.json)
cluster=(--cluster '2 devices, 1GiB, 10GB/s 20us' --micro-batches 4)
plan=$'plan\e[31m.json'

# Nothing that a terminal would act upon; colours are asked for nowhere here.
try() {
    "$@" > out 2> err
    code=$?
    cat out err > both
    python3 - "$code $*" <<'END'
import sys
text = open('both', 'rb').read().decode()  # UTF-8 all through
bad = sorted({hex(ord(c)) for c in text if c != '\n' and (ord(c) < 32 or 127 <= ord(c) < 160)})
code, command = sys.argv[1].split(' ', 1)
words = ' '.join(word for word in command.split()[:2] if word.isalpha())
print(f'{words}: exit {code}, ' + (f'raw: {bad}' if bad else 'spelt out' if '\\x' in text else 'no name'))
END
}
try weir partition "$profile" "${cluster[@]}" --schedule 1f1b -o "$plan"
head -1 out
try weir price "$profile" --plan "$plan"
try weir price "$profile" --cuts 2,2 "${cluster[@]}" --schedule 1f1b
try weir keep "$profile" --plan "$plan" --gain 1%
try weir explain "$plan" --profile "$profile"
try weir front "$profile" "${cluster[@]}" --schedule 1f1b
try weir partition "$profile" "${cluster[@]}" --schedule 1f1b --memory 1KiB
try weir sweep "$profile" "${cluster[@]}" --schedules 1f1b
try weir sweep "$profile" "${cluster[@]}" --memory 1KiB --schedules 1f1b --csv
try weir bottleneck "$profile" "${cluster[@]}" --model max-load
try weir profile --lint "$profile"
try weir check "$plan" --profile "$profile"
try weir check "$plan"
try weir simulate "$plan"
try weir simulate "$plan" --against "$plan"
try weir partition "$profile" "${cluster[@]}" --schedule 1f1b -o -
try weir partition wrong*.json "${cluster[@]}" --schedule 1f1b
try weir verify "$plan"
cat err
try weir train "$plan" --plan "$plan" --data .
cat err

echo "# arguments"
weir $'none\e[31m' 2>&1
weir check a $'b\e[31m' 2>&1 | head -1
weir check $'--no\e[31m' 2>&1 | head -1
weir check $'none\xff\xc2\x9b.json' 2>&1
exit 0
