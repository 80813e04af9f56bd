# What an operator sees of a training run, and what its log has: each number of a line is held against the log's; and
# a run that is ended and gone on with, in one process and in several, has one log.
exec 2>&1
model=gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2
weir profile $model -o profile.json >/dev/null 2>&1
weir profile $model --device cpu:fp16 -o half.json >/dev/null 2>&1
plan() {  # PROFILE, and how
    weir partition $1.json --cluster "2 devices, 1GiB, 10GB/s 1us" --micro-batches 4 "${@:2}" 2>&1 >/dev/null |
        grep -v untrusted
}
plan profile --schedule 1f1b -o plan.json
plan profile --schedule pipedream -o drained.json
plan half --schedule 1f1b --optimizer adamw-master -o fp16.json
lines() { for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done; }
lines > text
train() {  # when a checkpoint between two others is whole goes by the disk, and so does what is said of it
    weir train $model --data text "$@" 2>train.err; local code=$?
    grep -v ' is kept$' train.err >&2; return $code
}

# Reads a log as its page says, the last line of each step, and what was printed, line by line.
cat > hold.py <<'P'
import json, math, re, sys
shown, log, every, steps, first = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
lines = [json.loads(line) for line in open(log)]
begin = max(i for i, line in enumerate(lines) if line['event'] == 'begin')
made = {line['step']: line for line in lines[begin:] if line['event'] == 'step'}
looks = [line for line in lines[begin:] if line['event'] == 'evaluation']
assert sorted(made) == list(range(first + 1, steps + 1)), sorted(made)
printed = [line for line in open(shown) if line.startswith('step ')]
form = re.compile(r'step +(\d+) of (\d+)  loss ([\d.]+) \(([\d.]+) bits\)  rate (\S+)(?:  norm (\S+))?'
                  r'(?:  scale (\S+))?'
                  r'  ([\d.]+) k tokens/s  bubble ([\d.]+) %  slowest stage (\d+)  (\S+ \S+)'
                  r'  (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:  (.*) left)?(?:  skipped: .*)?$')
def wait(s):
    s = math.floor(s + 0.5)
    return f'{s} s' if s < 60 else f'{s // 60} min {s % 60} s' if s < 3600 else f'{s // 3600} h {s // 60 % 60} min'
def size(n):
    for unit in ('B', 'KiB', 'MiB'):
        if n < 1024 or unit == 'MiB':
            return f'{n} {unit}' if unit == 'B' else f'{n:.{max(0, 3 - len(str(int(n))))}f} {unit}'
        n /= 1024
before, wanted = first, []
for text in printed:
    match = form.match(text)
    assert match, text
    step, of, loss, bits, rate, norm, scale, speed, bubble, stage, most, date, left = match.groups()
    line = made[int(step)]
    since = [made[i] for i in range(before + 1, int(step) + 1)]
    ours = [made[i]['took_ns'] for i in range(first + 1, int(step) + 1)]
    ours = ours[1:] or ours
    assert int(of) == steps and abs(float(loss) - line['loss']) < 0.00006, text
    assert abs(float(bits) - line['loss'] / math.log(2)) < 0.0006 and stage == str(line['slowest_stage']), text
    # The log is rounded, too: what is rounded once more may end at the other side.
    assert abs(float(rate) / float(line['rate']) - 1) < 0.006 and abs(float(bubble) - 100 * line['bubble']) < 0.06, text
    assert norm is None and line['gradient_norm'] is None or abs(float(norm) / line['gradient_norm'] - 1) < 0.006, text
    assert scale is None and line['loss_scale'] is None or float(scale) == float(line['loss_scale']), text
    assert abs(float(speed) - 1e6 * sum(l['tokens'] for l in since) / sum(l['took_ns'] for l in since)) < 0.06, text
    assert most == size(max(lines[begin]['bytes'])), (text, size(max(lines[begin]['bytes'])))
    left_ns = sum(ours) // len(ours) * (steps - int(step))
    assert left == (wait(left_ns / 1e9) if int(step) < steps else None), (text, left_ns)
    before = int(step)
    wanted.append(before)
skips = {step for step in made if made[step]['skipped']}
due = sorted({step for step in made if step in (1, steps) or step % every == 0} | skips)
assert wanted == due, (wanted, due)
told = [line.rstrip('\n') for line in open(shown) if line.startswith('behind step')]
best = {True: ', the least so far', False: ''}
assert [f"behind step {l['step']} held-out text takes {l['bits']:.3f} bits per token{best[l['best']]}"
        for l in looks] == told, told
held = [re.match(r'held-out text: (\S+) bits', line) for line in open(shown)]
held = [match.group(1) for match in held if match]
if looks and held:
    assert looks[-1]['step'] == steps and held == [f"{looks[-1]['bits']:.3f}"], (looks[-1], held)
last = lines[-1]
print(len(printed), 'lines and', len(looks), 'looks at held-out text are as the log says;',
      last['event'], last.get('how'), 'at step', last['step'])
P
hold() { python3 hold.py "$@"; }

echo "# every line"
train --plan plan.json --steps 11 --every 3 --log run.jsonl --eval-every 4 >run.txt; echo "exit $?"
sed -n '1s/:.*//p' run.txt
hold run.txt run.jsonl 3 11 0
train --plan plan.json --steps 6 --log clip.jsonl --clip 1 >clip.txt; echo "exit $?"
hold clip.txt clip.jsonl 1 6 0
grep -c '  norm ' clip.txt
train --plan fp16.json --steps 8 --every 8 --log fp16.jsonl --device cpu:fp16 --loss-scale 16777216,2 --eval-every 8 \
    >fp16.txt; echo "exit $?"
hold fp16.txt fp16.jsonl 8 8 0
grep -c '  scale .*  skipped: ' fp16.txt
train --plan drained.json --steps 12 --flush-every 4 --every 2 --log drained.jsonl --eval-every 3 >drained.txt
echo "exit $?"
hold drained.txt drained.jsonl 2 12 0

echo "# ended, and gone on with: one log, whose last line of each step is the whole run's"
losses() { python3 -c '
import json, sys
steps = {}
for line in map(json.loads, open(sys.argv[1])):
    if line["event"] == "begin":
        steps = {step: loss for step, loss in steps.items() if step <= line["step"]}
    if line["event"] == "step":
        steps[line["step"]] = line["loss"]
for step in sorted(steps):
    print(step, steps[step])' "$1"; }
whole() { train --plan plan.json --steps 12 "$@"; }
whole --log whole.jsonl >/dev/null
whole --log parts.jsonl --checkpoints parts --save-every 3 --keep 9 >/dev/null; echo "exit $?"
rm -r parts/step-12 parts/step-9
printf '{"event": "step", "time": "2026-' >> parts.jsonl  # as a machine leaves it that goes down
whole --log parts.jsonl --checkpoints parts --resume --every 4 --out . >parts.txt; echo "exit $?"
hold parts.txt parts.jsonl 4 12 6
losses parts.jsonl | cmp - <(losses whole.jsonl) && echo "the same losses"
grep -c '"event": "begin"' parts.jsonl
grep -o 'id="curves"' timelines.html
grep -o 'polyline class="curve0" points="[^"]*"' timelines.html | wc -w  # a word more than points

echo "# two processes: rank 0 writes"
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir train $model --data text --plan plan.json --steps 12 --every 5 --eval-every 6 --device cpu:queued \
        --log rank$rank.jsonl >rank$rank.txt 2>rank$rank.err &
done
wait
hold rank0.txt rank0.jsonl 5 12 0
losses rank0.jsonl | cmp - <(losses whole.jsonl) && echo "the same losses"
ls rank1.jsonl 2>&1 | sed 's/.*: //'
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir train $model --data text --plan plan.json --steps 12 --eval-every $((6 + rank)) >rank$rank.txt 2>&1 &
done
wait
grep -h 'eval-every' rank0.txt

echo "# what is refused, before a step is made"
refuse() { train --plan plan.json --steps 2 "$@" >out; echo "exit $?"; grep -c ^step out; }
refuse --log run.jsonl
refuse --log run.jsonl --seed 2 --checkpoints none --resume
refuse --log text
cmp -s text <(lines) && echo "the text is as it was"
refuse --log .
refuse --log nowhere/run.jsonl
refuse --eval-every 0 | sed '/^Try/d'

echo "# a disk that is full ends the log, not the run"
train --plan plan.json --steps 2 --log /dev/full >out; echo "exit $?"
grep -c ^step out
