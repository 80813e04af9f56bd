# Held-out text is looked at on the way, by the pipeline's own weights, as it is at the end; and the checkpoint that
# did best stays, however many come behind it, also over a run that is gone on with.
exec 2>&1
model=gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2
weir profile $model -o fp32.json >/dev/null 2>&1
weir profile $model --device cpu:bf16 -o bf16.json >/dev/null 2>&1
weir profile $model --tensor 2 -o split.json >/dev/null 2>&1
plan() {  # PROFILE, PLAN, and how
    weir partition $1.json --cluster "4 devices, 1GiB, 10GB/s 1us" --micro-batches 4 -o $2.json "${@:3}" 2>&1 \
        >/dev/null | grep -v untrusted || true
}
train() { weir train $model --data text --plan "$@"; }
# What it is trained on has no capital letter, and what is held out nothing else: the more it learns the worse it is.
# Every tenth block of 4,096 is held out.
yes 'a line of small letters, and that again and again' | head -c 36864 > text
yes 'CAPITALS ARE UNHEARD OF IN WHAT CAME BEFORE THESE' | head -c 4096 >> text

echo "# the last look is the final one: whatever the plan, in one process and in several"
same() {
    awk '/^behind step/ { looks++; last = $7 } /^held-out text:/ { final = $3 }
         END { print looks " looks, " (last == final && last != "" ? "the last as at the end" : last " not " final) }'
}
look() { train "$@" --steps 5 --every 5 --eval-every 2 2>&1 | same; }
plan fp32 1f1b --schedule 1f1b --ranks 2 && look 1f1b.json
look 1f1b.json --device cpu:queued,cpu:queued
plan fp32 zb-v --schedule zb-v --ranks 2 && look zb-v.json
plan fp32 copies --schedule 1f1b --replicas 2,2 --shard weights && look copies.json
plan fp32 two --schedule chimera --ranks 2 && look two.json
plan split split2 --schedule 1f1b --variants tensor2,tensor2 && look split2.json
plan bf16 half --schedule 1f1b --ranks 2 --optimizer adamw-master && look half.json --device cpu:bf16
train half.json --device cpu:bf16 --steps 5 --eval-every 2 --batch 7 2>&1 | same
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir train $model --data text \
        --plan 1f1b.json --steps 5 --eval-every 2 --device cpu:queued >rank$rank.txt 2>&1 &
done
wait
same < rank0.txt

echo "# it changes nothing"
train 1f1b.json --steps 6 --eval-every 1 --checkpoints looked >/dev/null 2>&1
train 1f1b.json --steps 6 --checkpoints blind >/dev/null 2>&1
for file in blind/step-6/*.safetensors; do cmp $file looked/step-6/$(basename $file); done && echo "the same bits"

echo "# the best stays"
run() {
    train 1f1b.json --rate 0.02 --save-every 10 --eval-every 20 --keep 2 --every 20 "$@" >run.txt 2>run.err
    echo "exit $?"
}
run --steps 100 --checkpoints kept --log kept.jsonl
python3 - << 'P'
import glob, json, os
looks = [line for line in map(json.loads, open('kept.jsonl')) if line['event'] == 'evaluation' and line['step'] > 0]
best = min(looks, key=lambda line: line['bits'])
kept = sorted(int(name.split('-')[-1]) for name in glob.glob('kept/step-*'))
print('the best of', len(looks), 'looks is', 'not the last one' if best['step'] < 90 else 'among the newest')
print('the best and the newest stay' if kept == [best['step'], 90, 100] else f'{kept} stay, and {best} is the best')
held = json.load(open(f'kept/step-{best["step"]}/manifest.json'))['held_loss']
print('its manifest says so' if abs(held - best['bits'] * 0.6931471805599453) < 2e-6 else held)
os.rename('kept.jsonl', 'first.jsonl')
open('best', 'w').write(str(best['step']))
P
weir eval $model --checkpoint kept/step-$(cat best) --data text | grep -o 'held-out text: [0-9.]*' > eval.txt
grep "^behind step $(cat best) " run.txt | sed 's/^.* takes \([0-9.]*\) .*/held-out text: \1/' | cmp - eval.txt &&
    echo "and so does weir eval"
run --steps 140 --checkpoints kept --resume
ls kept | sort -V | sed "s/^step-$(cat best)\$/the best/"
grep -c 'the least so far' run.txt

echo "# kept where no other is due; and without a folder there is none"
run --steps 40 --checkpoints few --keep 1 --save-every 1000
ls few | sort -V
train 1f1b.json --steps 4 --eval-every 2 >run.txt; echo "exit $?"
