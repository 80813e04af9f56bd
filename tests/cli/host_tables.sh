# Embedding tables in the host's memory, of which the device has room for the rows of an iteration: planned and run with
# the bits of one place that has whole tables, trained to the same bits, and gone on with in either way.
exec 2>&1
said() { tail -n 1 | sed 's/: pipeline and.*//'; }
plan() {  # PLAN PROFILE SCHEDULE VARIANTS OPTIONS..
    rm -f $1
    weir partition $2 --cluster "4 devices, 1GiB, 10GB/s 1us" --schedule $3 --micro-batches 4 --variants $4 -o $1 \
        "${@:5}" >plan.txt || cat plan.txt
}
model="dlrm,numbers=4,rows=500/7/3000,columns=8,ids=3,weighted,bottom=16,top=16,micro_batch=8"
weir profile $model --tables host300,host30 -o profile.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json

echo "# by schedules that flush, and by others, whose passes end"
for schedule in gpipe 1f1b zb-h1 chimera; do
    plan plan.json profile.json $schedule host300,host300 --ranks 2 --optimizer adagrad
    echo "$schedule: $(weir verify plan.json --steps 5 2>&1 | said)"
done
for schedule in pipedream vertical pipedream-2bw; do
    plan plan.json profile.json $schedule host300,host300 --ranks 2 --optimizer adagrad
    echo "$schedule: $(weir verify plan.json --steps 5 2>&1 | said)"
done
plan plan.json profile.json 1f1b host300,host300 --replicas 2,1 --optimizer adagrad
echo "replicas, clipped: $(weir verify plan.json --steps 3 --clip 0.01 2>&1 | said), a short last micro-batch:" \
    "$(weir verify plan.json --steps 3 --batch 27 2>&1 | said)"
echo "on queues: $(weir verify plan.json --device cpu:queued,cpu:queued,cpu:queued 2>&1 | said)"

for rank in 0 1 2; do
    WEIR_RANK=$rank WEIR_RANKS=3 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json >rank$rank.txt 2>&1 &
done
wait
echo "processes: $(said <rank0.txt)"

echo "# trained to the same bits, as planned"
weir data make-clicks --samples 3000 --seed 3 -o clicks.json >data.txt || cat data.txt
one="dlrm,rows=60,columns=8,bottom=16,top=16,micro_batch=16"
weir profile $one --tables host900 -o one.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' one.json
train() {  # FOLDER VARIANTS
    plan $1.json one.json 1f1b $2 --ranks 2 --optimizer adagrad
    weir train $one --plan $1.json --data clicks.json --steps 10 --rate 0.02 --checkpoints $1 --save-every 5 --keep 9 \
        --resume "${@:3}" >$1.txt 2>$1.err || cat $1.err
    awk -v name=$2 '/peak bytes/ && $5 != $6 { print name, "takes other bytes than planned:", $0 }' $1.txt
    grep '^held-out clicks' $1.txt | sed 's/, [0-9.]* are right.*//'
}
same() { diff -r -x manifest.json whole/step-10 $1/step-10 && echo "the same bits"; }
train whole -,-
train host host900,host900
same host
cp -r host back && rm -r back/step-10
train back -,-
same back
train apart host900,host900 --device cpu:queued,cpu:queued
same apart
cp -r whole there && rm -r there/step-10
train there host900,host900
same there

echo "# clipped, and gone on with beside evaluations"
train clipped host900,host900 --clip 0.02
cp -r clipped again && rm -r again/step-10
train again host900,host900 --clip 0.02 --eval-every 2
diff -r -x manifest.json clipped/step-10 again/step-10 && echo "the same bits"

for plan in whole host; do
    weir score $plan.json --weights host --data clicks.json -o $plan.tsv >/dev/null || echo "exit $?"
done
cmp whole.tsv host.tsv && echo "the same scores of $(grep -vc '^#' host.tsv) samples"

echo "# refused"
plan plan.json profile.json 1f1b host300,host300 --ranks 2 --optimizer adamw
weir verify plan.json; echo "exit $?"
plan plan.json profile.json 1f1b host30,host30 --ranks 2 --optimizer sgd
weir verify plan.json; echo "exit $?"
python3 - <<'END'
import json
plan = json.load(open('plan.json'))
for stage in plan['stages']:
    if 'tables' in stage['layers']:
        del stage['variant']
json.dump(plan, open('half.json', 'w'))
END
weir verify half.json; echo "exit $?"
weir profile $model --tables host4000; echo "exit $?"
weir profile $model --tables host0; echo "exit $?"
weir profile $model --tables host300 --rows 2; echo "exit $?"
weir profile gpt-nano --tables host300; echo "exit $?"
