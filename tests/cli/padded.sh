# A vocabulary padded to a multiple of 128: the losses are those without, up to the rounding of products, on one stage
# and on three, with words of the head's own and with the embedding's; and no byte is there that was not planned.
set -e
sizes=width=16,blocks=1,heads=2,sequence=8,micro_batch=2
cat /usr/share/common-licenses/{GPL-3,LGPL-2.1} | head -c 41000 > text

losses() { sed -n 's/^step.*  loss \([0-9.]*\) .*/\1/p; s/^held-out text: \([0-9.]*\) bits.*/\1/p' $1.train; }
compare() {  # HOW FAR LOSSES MAY DIFFER
    paste <(losses plain) <(losses padded) | awk -v within=$1 '
        { off = $1 > $2 ? $1 - $2 : $2 - $1; if (off > within) print "losses " $1 " and " $2 " differ;" }
        END { print NR " losses agree" }'
}
peaks() {
    awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 }
         /peak bytes/ { n++ } END { print n - bad " peaks agree" }' $1
}
run() {  # MODEL PROFILE CUTS
    weir price $2.json --cluster "$(tr -cd , <<< $3 | wc -c | awk '{ print $1 + 1 }') devices, 1GiB, 10GB/s 1us" \
        --schedule 1f1b --micro-batches 4 --tied apart --cuts $3 --optimizer $optimizer -o $2.plan > /dev/null
    weir train $1 --plan $2.plan --data text --steps 4 --device $device > $2.train
}

for device in cpu cpu:bf16; do
    optimizer=adamw within=0.0011  # one in the last digit of the held-out text's
    if [ $device = cpu:bf16 ]; then optimizer=adamw-master within=0.02; fi
    for words in tied untied; do
        [ $device,$words != cpu:bf16,tied ] || continue  # one plan in bf16 is enough
        model=gpt2,$words,$sizes
        weir profile $model --device $device -o plain.json > /dev/null
        weir profile $model --device $device -o padded.json --pad-vocabulary > /dev/null
        run $model plain [4]
        for cuts in [4] [1,2,1]; do
            [ $device,$cuts != cpu:bf16,[4] ] || continue
            run $model,padded padded $cuts
            echo "$device, $words, $cuts: $(compare $within), $(peaks padded.train)"
            weir verify padded.plan --device $device --steps 1 | sed 's/ (last loss.*//'
        done
    done
done

echo "# the profile is the padded model's, and the model keeps its count of parameters"
grep '"model"' padded.json
weir model gpt2,blocks=1 --pad-vocabulary | sed -n '1p;/^head/p;/^total/p;$p'
weir model gpt2,blocks=1 | sed -n '1p;/^head/p;/^total/p;$p'
exec 2>&1
set +e
weir train $model --plan padded.plan --data text; echo "exit $?"
weir profile $model,padded --pad-vocabulary; echo "exit $?"
weir profile $model,padded=2; echo "exit $?"
weir profile --lint padded.json --pad-vocabulary | head -1
weir model --pad-vocabulary; echo "exit $?"
