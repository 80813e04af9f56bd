# Tables that are split over devices with rows of their own: profiled, planned, run with the bits of one place, trained
# to the same bits wherever the tables are, and gone on with by other places and other devices; and what is refused.
exec 2>&1
profile() {  # PROFILE MODEL DEVICES PLACES
    weir profile "$2" --rows $3 --tables $4 -o $1 >/dev/null || echo "no profile of $2"
    sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1
}
plan() {  # PLAN PROFILE SCHEDULE VARIANT RANKS OPTIONS..
    local variants=$4 i
    for ((i = 1; i < $5; i++)); do variants=$variants,$4; done
    rm -f $1
    weir partition $2 --cluster "12 devices, 1GiB, 10GB/s 1us" --schedule $3 --micro-batches 4 --variants $variants \
        -o $1 "${@:6}" >plan.txt || cat plan.txt
}
said() { tail -n 1 | sed 's/: pipeline and.*//'; }
run() { weir verify "$@" 2>&1 | said; }
model="dlrm,numbers=4,rows=50/7/300,columns=12,ids=3,mean,weighted,bottom=16,top=16,micro_batch=8"

echo "# by each kind of schedule, in uneven shares"
mixed=all/columns0+2/rows0+1
profile many.json "$model" 3 slots,columns,rows,all/1/rows0+1,$mixed
for row in gpipe:slots 1f1b:columns zb-h1:rows interleaved:$mixed chimera:$mixed pipedream:rows pipedream-2bw:$mixed; do
    schedule=${row%:*} ranks=2
    [ $schedule != interleaved ] || ranks=4
    plan plan.json many.json $schedule rows3:${row#*:} $ranks --ranks 2 --optimizer adagrad
    echo "${row#*:} by $schedule: $(run plan.json)"
done
plan plan.json many.json 1f1b rows3:$mixed 2 --replicas 2,1
echo "clipped, replicas, a short last micro-batch: $(run plan.json --clip 0.01) $(run plan.json --batch 27)"
for row in zb-h1:rows chimera:slots pipedream:rows interleaved:all/1/rows0+1; do
    schedule=${row%:*} ranks=2
    [ $schedule != interleaved ] || ranks=4
    plan plan.json many.json $schedule rows3:${row#*:} $ranks --ranks 2 --optimizer adagrad-rows
    echo "${row#*:} by $schedule, a sum for each row: $(run plan.json)"
done
cut=0/columns0+2/rows0+1
profile cut.json "$model" 3 $cut
for row in gpipe:slots 1f1b:columns zb-h1:rows interleaved:$cut; do
    schedule=${row%:*} ranks=2 from=many.json
    [ $schedule != interleaved ] || ranks=4 from=cut.json
    plan plan.json $from $schedule rows3:${row#*:} $ranks --ranks 2 --optimizer adam-rows
    echo "${row#*:} by $schedule, Adam by rows: $(run plan.json) $(run plan.json --clip 0.01 --batch 27)"
done
profile large.json "dlrm,numbers=4,rows=5000/7/3000,columns=12,ids=3,bottom=16,top=16,micro_batch=8" 3 rows,$cut
for row in adagrad:$cut adagrad-rows:rows adam-rows:$cut; do
    plan plan.json large.json 1f1b rows3:${row#*:} 2 --replicas 2,1 --optimizer ${row%:*}
    echo "clipped, replicas, ${row#*:}, ${row%:*}: $(run plan.json --clip 0.01)"
    plan plan.json large.json chimera rows3:${row#*:} 2 --ranks 2 --optimizer ${row%:*}
    echo "two pipelines in opposite directions: $(run plan.json) $(run plan.json --batch 27)"
done
profile wide.json "wide-and-deep,numbers=3,rows=50/7/300,columns=6,ids=2,top=16,micro_batch=8" 2 rows
plan plan.json wide.json zb-h1 rows2:rows 2
echo "two layers of tables: $(run plan.json)"

echo "# a device for each, in processes"
plan plan.json many.json 1f1b rows3:$mixed 2
queues=cpu:queued,cpu:queued,cpu:queued
echo "one process: $(run plan.json --device $queues,$queues)"
for ((rank = 0; rank < 6; rank++)); do
    WEIR_RANK=$rank WEIR_RANKS=6 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json --device cpu:queued \
        >rank$rank.txt 2>&1 &
done
wait
echo "processes: $(said <rank0.txt)"
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS timeout -k 5 300 mpirun -n 6 weir verify plan.json --device cpu:queued,mpi >mpi.txt 2>&1
    tail -n 1 mpi.txt | grep -q '^equal: ' || cat mpi.txt
fi

echo "# trained to the same bits, as planned"
weir data make-clicks --samples 3000 --seed 3 -o clicks.json >data.txt || cat data.txt
one="dlrm,rows=60,columns=8,bottom=16,top=16,micro_batch=16"
profile on2.json "$one" 2 0,slots,columns,rows
profile on4.json "$one" 4 columns
train() {  # FOLDER PROFILE VARIANT
    plan $1.json $2 1f1b $3 2 --optimizer ${optimizer:-adagrad}
    weir train $one --plan $1.json --data clicks.json --steps 10 --rate 0.02 --checkpoints $1 --save-every 5 --keep 9 \
        --resume >$1.txt 2>$1.err || cat $1.err
    awk -v name=$3 '/peak bytes/ && $5 != $6 { print name, "takes other bytes than planned:", $0 }' $1.txt
}
same() { diff -r -x manifest.json ${2:-whole}/step-10 $1/step-10 && echo "$1: the same bits"; }
train whole on2.json rows2:0
for places in slots columns rows; do
    train $places on2.json rows2:$places
    same $places
done
cp -r whole moved && rm -r moved/step-10
train moved on2.json rows2:rows
same moved
cp -r whole more && rm -r more/step-10
train more on4.json rows4:columns && ls more

echo "# with a sum for each row, which a checkpoint has of whole tables"
optimizer=adagrad-rows
train sums on2.json rows2:0
for places in slots rows; do
    train $places-sums on2.json rows2:$places
    same $places-sums sums
done
cp -r sums moved-sums && rm -r moved-sums/step-10
train moved-sums on2.json rows2:rows
same moved-sums sums
plan no.json on2.json 1f1b rows2:columns 2 --optimizer adagrad-rows
plan no.json many.json 1f1b rows3:$mixed 2 --optimizer adam-rows

echo "# with moments of the rows that have a gradient"
optimizer=adam-rows
train lazy on2.json rows2:0
for places in slots rows columns; do
    train $places-lazy on2.json rows2:$places
    same $places-lazy lazy
done
cp -r lazy moved-lazy && rm -r moved-lazy/step-10
train moved-lazy on2.json rows2:rows
same moved-lazy lazy

echo "# refused"
weir profile "$one" --tables slots; echo "exit $?"
weir profile "$one" --rows 3 --tables columns; echo "exit $?"
weir profile "$one" --rows 2 --tables 0/1; echo "exit $?"
weir profile "$one" --rows 2 --tables 2; echo "exit $?"
weir profile gpt-nano --rows 2 --tables slots; echo "exit $?"
sed 's/rows3:all.columns0+2.rows0+1/rows3:all/' plan.json >other.json
weir verify other.json 2>&1 | sed 's/as [0-9]* bytes/as so many bytes/; s/take [0-9]*:/take others:/'
echo "exit ${PIPESTATUS[0]}"
