# Pictures trained on by a plan: the same pictures and bits on one rank and on two, gone on with, by another batch, and
# measured against logistic regression.
python3 - <<'END'
import random, struct
# Each class is a bar in another place, bright or dark, under noise: no sum of pixels tells it.
def idx(name, sizes, numbers):
    with open(name, 'wb') as file:
        file.write(struct.pack('>BBBB', 0, 0, 8, len(sizes)) + struct.pack(f'>{len(sizes)}I', *sizes) + bytes(numbers))
draw = random.Random(1)
for name, count in ('train', 600), ('held', 200):
    labels = [draw.randrange(4) for _ in range(count)]
    pixels = [100 + draw.randrange(50) + sign * 90 * (x // 2 == label)
              for label in labels for sign in [draw.choice((-1, 1))] for y in range(8) for x in range(8)]
    idx(name + '.pixels', (count, 8, 8), pixels)
    idx(name + '.labels', (count,), labels)
END
weir data idx train.pixels train.labels held.pixels held.labels -o bars.json
model=fashion-mlp,pixels=8,classes=4,micro_batch=16
weir profile $model -o profile.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be right, which is said
plan() {  # NAME RANKS SCHEDULE
    weir partition profile.json --cluster "$2 devices, 1GiB, 10GB/s 1us" --schedule $3 --micro-batches 4 \
        --optimizer momentum -o $1.json >/dev/null
}
plan one 1 gpipe
plan two 2 1f1b
plan three 3 zb-h1
train() {  # PLAN FOLDER ARGUMENTS..
    weir train $model --plan $1.json --data bars.json --rate 0.02 --seed 3 --checkpoints $2 --augment shift:1 \
        --every 1000 "${@:3}"
}
scores() { grep -o 'behind step.*\|^held-out.*' "$@" | tail -n 3; }
same() { for file in $1/*.safetensors; do cmp $file $2/$(basename $file) || return; done && echo "$1 and $2: the same bits"; }

echo '# twenty epochs of 600 pictures in batches of 64'
train one a --epochs 20 --beat 0.2 >one.txt 2>one.err; echo "exit $?"
scores one.txt
train two b --epochs 20 2>two.err | tee two.txt | scores >scores.txt
diff <(scores one.txt) scores.txt
same a/step-188 b/step-188

echo '# two devices for each rank, which share the pictures: as good, with sums in another order'
weir profile $model --rows 2 -o profile.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be right, which is said
weir partition profile.json --cluster "4 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 \
    --optimizer momentum --variants rows2,rows2 -o rows.json >/dev/null
train rows rows --epochs 20 --beat 0.2 >rows.txt 2>rows.err; echo "exit $?"

echo '# in 16 bits with weights in fp32 beside them: as good, also as weir eval says'
for kind in bf16 fp16; do
    weir profile $model --device cpu:$kind -o half.json >/dev/null
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' half.json
    weir partition half.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 \
        --optimizer momentum-master -o $kind.json >/dev/null
    train $kind $kind --device cpu:$kind --epochs 20 --beat 0.2 >half.txt 2>half.err; echo "exit $?"
    diff <(grep -o '^held-out.*' half.txt) <(weir eval $model --checkpoint $kind --data bars.json | grep -o '^held-out.*')
done

echo '# stopped and gone on with, by another plan'
train three c --epochs 3 --steps 11 2>&1 | head -n 1
train three c --epochs 20 --save-every 11 --keep 20 >c.txt 2>c.err; echo "exit $?"
find c -maxdepth 1 -name 'step-*' ! -name step-11 -exec rm -r {} +
train two c --epochs 20 --resume >c.txt 2>c.err; echo "exit $?"
diff <(scores one.txt) <(scores c.txt)
same a/step-188 c/step-188
grep -h '"samples"' a/step-188/manifest.json c/step-188/manifest.json

echo '# with another batch: the next pictures, not the next steps'
train one d --steps 10 >d.txt 2>d.err
train one d --steps 15 --batch 50 --resume >d.txt 2>d.err; echo "exit $?"
grep -h '"samples"' d/step-10/manifest.json d/step-15/manifest.json
train one d --steps 16 --resume --augment none 2>&1 >d.txt | grep 'augment'

echo '# batch norms: their running statistics, too, with 15 pictures in 4 micro-batches of 4'
residual=resnet18,width=8,pixels=8,channels=1,classes=4,stem=3x3,micro_batch=4
weir profile $residual -o residual.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' residual.json  # a busy machine's would not be right, which is said
for row in 'alone 1 gpipe' 'pair 2 1f1b' 'folded 2 zb-v'; do
    read -r name ranks schedule <<<"$row"
    weir partition residual.json --cluster "$ranks devices, 1GiB, 10GB/s 1us" --schedule $schedule --micro-batches 4 \
        --optimizer momentum -o $name.json >/dev/null
done
train_residual() {  # PLAN FOLDER ARGUMENTS..
    weir train $residual --plan $1.json --data bars.json --rate 0.05 --checkpoints $2 --augment flips --batch 15 \
        --steps 8 --eval-every 4 "${@:3}" >$2.txt 2>$2.err
    echo "exit $?"
}
train_residual alone e
train_residual folded f --save-every 3 --keep 9
find f -maxdepth 1 -name 'step-*' ! -name step-3 -exec rm -r {} +
train_residual pair f --resume
same e/step-8 f/step-8
diff <(scores e.txt | tail -n 1) <(scores f.txt | tail -n 1)

echo '# what was kept, measured: the numbers of its training'
measured() { sed -n 's/.*behind step 8 \(0[0-9.]*\) .* loss \([0-9.]*\) .*/\1 \2/p' $1; }
evaluated() { weir eval "$@" | sed -n 's/^held-out pictures: \(0[0-9.]*\) are right, loss \([0-9.]*\).*/\1 \2/p'; }
weir eval $model --checkpoint a --data bars.json | head -n 1
train two i --steps 12 --eval-every 4 --out i.pages >i.txt 2>&1
grep -c 'behind step' i.txt
grep -o 'share of targets that is right <span class="curve1">' i.pages/timelines.html
grep -c '^<circle class="curve1"[^>]*><title>held out, step [0-9]*: 0' i.pages/timelines.html
diff <(sed -n '/^held-out/,/^$/p' one.txt) <(weir eval $model --checkpoint a --data bars.json | sed 1,2d; echo)
[ -n "$(measured e.txt)" ] || echo 'nothing was measured'
diff <(measured e.txt) <(evaluated $residual --checkpoint e --data bars.json)
diff <(evaluated $model --checkpoint a --data bars.json) <(evaluated ${model/=16/=7} --checkpoint a --data bars.json)

echo '# begun with its weights and statistics, by two plans'
for row in 'alone g' 'pair h'; do
    read -r name folder <<<"$row"
    train_residual $name $folder --weights e/step-8 --seed 9
    diff <(measured e.txt) <(sed 's/behind step 0/behind step 8/; t; d' $folder.txt | measured /dev/stdin)
done
same g/step-8 h/step-8

exec 2>&1
echo '# refused'
for words in "$model,classes=3" 'gpt-nano' 'fashion-cnn'; do
    weir train $words --plan one.json --data bars.json; echo "exit $?"
done
weir train $model --plan one.json --data /usr/share/common-licenses; echo "exit $?"
weir train $model --plan one.json --data /usr/share/common-licenses --epochs 2; echo "exit $?"
weir train $model --plan one.json --data bars.json --epochs 2 --augment turns | head -n 1
weir train $model --plan one.json --data bars.json --epochs 1 --beat 0.99 >/dev/null; echo "exit $?"
weir train $residual --plan alone.json --data bars.json --weights a/step-188 | head -n 1
weir eval $model --checkpoint a --data /usr/share/common-licenses; echo "exit $?"
weir eval gpt-nano --checkpoint a --data bars.json; echo "exit $?"
weir eval fashion-mlp --checkpoint a --data bars.json; echo "exit $?"
weir eval ${residual/3x3/3x3s2} --checkpoint e --data bars.json; echo "exit $?"
weir profile ${residual/3x3/3x3s2} -o other.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' other.json  # a busy machine's would not be right, which is said
weir partition other.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 \
    --optimizer momentum -o other.json >/dev/null
weir train ${residual/3x3/3x3s2} --plan other.json --data bars.json --weights e/step-8; echo "exit $?"
weir sample $model --checkpoint a abc; echo "exit $?"
