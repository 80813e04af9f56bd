# Tables that devices have parts of, each in its host's memory, with room on the device for the rows of an iteration:
# planned, run with the bits of one place that has whole tables, trained to the same bits, and gone on with elsewhere.
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
run() { weir verify "$@" --steps 4 2>&1 | said; }
queues=cpu:queued,cpu:queued,cpu:queued
sizes="numbers=4,rows=5000/400/3000,columns=12,ids=3,mean,weighted,bottom=16,top=16,micro_batch=8"

echo "# by schedules that flush, in uneven shares"
mixed=0/columns0+2/rows0+1
profile many.json "dlrm,$sizes" 3 slots:host900,columns:host900,rows:host900,$mixed:host900
for row in gpipe:slots 1f1b:columns zb-h1:rows 1f1b:$mixed; do
    plan plan.json many.json ${row%:*} rows3:${row#*:}:host900 2 --ranks 2 --optimizer adagrad
    echo "${row#*:} by ${row%:*}: $(run plan.json) $(run plan.json --clip 0.01) $(run plan.json --batch 27)"
done
plan plan.json many.json 1f1b rows3:$mixed:host900 2 --replicas 2,1 --optimizer sgd
echo "replicas: $(run plan.json)"
profile ahead.json "dlrm,$sizes,exchange" 3 $mixed:host900
plan plan.json ahead.json tables-ahead rows3:$mixed:host900 2 --ranks 1 --optimizer adagrad
echo "looked up ahead: $(run plan.json) $(run plan.json --device $queues)"
profile wide.json "wide-and-deep,numbers=3,rows=5000/700,columns=6,ids=2,top=16,micro_batch=8" 2 rows:host500
plan plan.json wide.json 1f1b rows2:rows:host500 2 --ranks 2 --optimizer sgd
echo "two layers of tables: $(run plan.json)"

echo "# with some tables on the host, and others on the devices"
some=all/columns0+2@host/rows0+1 few=0@host/1/rows@host lone=0/0/1@host
profile some.json "dlrm,$sizes" 3 $some:host120,$few:host900,$lone:host300
for row in gpipe:$some:host120 zb-h1:$few:host900 pipedream:$some:host120 pipedream-2bw:$few:host900 \
    1f1b:$lone:host300; do
    plan plan.json some.json ${row%%:*} rows3:${row#*:} 2 --ranks 2 --optimizer adagrad
    echo "${row#*:} by ${row%%:*}: $(run plan.json) $(run plan.json --device $queues,$queues)"
done
plan plan.json some.json 1f1b rows3:$some:host120 2 --replicas 2,1 --optimizer sgd
echo "clipped, replicas: $(run plan.json --clip 0.01)"

echo "# by schedules without a flush, whose passes end"
for row in pipedream:rows vertical:slots pipedream-2bw:$mixed; do
    plan plan.json many.json ${row%:*} rows3:${row#*:}:host900 2 --ranks 2 --optimizer adagrad
    echo "${row#*:} by ${row%:*}: $(run plan.json) $(run plan.json --device cpu:queued)"
done

echo "# a device for each, in processes"
plan plan.json many.json 1f1b rows3:$mixed:host900 2 --ranks 2 --optimizer adagrad
echo "one process: $(run plan.json --device $queues,$queues)"
for ((rank = 0; rank < 6; rank++)); do
    WEIR_RANK=$rank WEIR_RANKS=6 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan.json --device cpu:queued \
        --steps 4 >rank$rank.txt 2>&1 &
done
wait
echo "processes: $(said <rank0.txt)"
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS timeout -k 5 300 mpirun -n 6 weir verify plan.json --device cpu:queued,mpi >mpi.txt 2>&1
    tail -n 1 mpi.txt | grep -q '^equal: ' || cat mpi.txt
fi

echo "# trained to the same bits, as planned"
weir data make-clicks --samples 3000 --slots 4 --numbers 3 --ids 600 --seed 3 -o clicks.json >data.txt || cat data.txt
one="dlrm,numbers=3,slots=4,rows=600,columns=8,bottom=16,top=16,micro_batch=16"
profile on2.json "$one" 2 0,slots,slots:host300,columns:host600,rows:host300,1@host/columns/0/rows@host:host300
train() {  # FOLDER VARIANT OPTIONS..
    plan $1.json on2.json 1f1b $2 2 --optimizer adagrad
    weir train $one --plan $1.json --data clicks.json --steps 10 --rate 0.02 --checkpoints $1 --save-every 5 --keep 9 \
        --resume "${@:3}" >$1.txt 2>$1.err || cat $1.err
    awk -v name=$2 '/peak bytes/ && $5 != $6 { print name, "takes other bytes than planned:", $0 }' $1.txt
}
same() { diff -r -x manifest.json whole/step-10 $1/step-10 && echo "$1: the same bits"; }
train whole rows2:0
for row in slots:host300 columns:host600 rows:host300; do
    train ${row%:*} rows2:$row
    same ${row%:*}
done
some=rows2:1@host/columns/0/rows@host:host300
train some $some
same some
cp -r whole moved && rm -r moved/step-10
train moved rows2:rows:host300
same moved
cp -r whole there && rm -r there/step-10
train there $some --eval-every 2
same there
cp -r some back && rm -r back/step-10
train back rows2:slots
same back
cp -r slots apart && rm -r apart/step-10
train apart rows2:slots:host300 --device cpu:queued,cpu:queued,cpu:queued,cpu:queued --eval-every 2
same apart
plan 2bw.json on2.json pipedream-2bw rows2:0 2 --ranks 2 --optimizer adagrad
plan 2bw-host.json on2.json pipedream-2bw rows2:rows:host300 2 --ranks 2 --optimizer adagrad
for name in 2bw 2bw-host; do
    weir train $one --plan $name.json --data clicks.json --steps 9 --rate 0.02 --flush-every 3 --checkpoints $name \
        >$name.txt 2>$name.err || cat $name.err
done
diff -r -x manifest.json 2bw/step-9 2bw-host/step-9 && echo "three passes by 2BW: the same bits"
grep '^held-out clicks' whole.txt slots.txt columns.txt rows.txt some.txt there.txt apart.txt | sed 's/, [0-9.]* are right.*//'

for name in rows some; do
    weir score $name.json --weights some --data clicks.json -o $name.tsv >/dev/null || echo "exit $?"
done
cmp rows.tsv some.tsv && echo "the same scores of $(grep -vc '^#' rows.tsv) samples"

echo "# where weir place puts them, with less memory than the tables need"
narrow="2 devices, 60KiB, 12GB/s 5us, host 1GiB 10GB/s"
weir profile $one --data clicks.json --batches 8 --rows 2 --tables least --cluster "$narrow" -m 4 --optimizer adagrad \
    -o least.json >least.txt 2>&1 || cat least.txt
least=$(grep -o 'rows2:[^"]*host[0-9]*' least.json | sort -u)
[[ $least == *@host* ]] && echo "some on the host"
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' least.json
plan plan.json least.json 1f1b $least 2 --ranks 2 --optimizer adagrad
echo "$(weir verify plan.json 2>&1 | said)"
weir profile $one --data clicks.json --batches 8 --rows 2 --tables least --cluster "$narrow" -m 4 \
    --optimizer adagrad-rows -o none.json; echo "exit $?"

echo "# refused"
plan plan.json many.json 1f1b rows3:slots:host900 2 --ranks 2 --optimizer adamw
weir verify plan.json; echo "exit $?"
profile small.json "dlrm,$sizes" 3 $mixed:host20
plan plan.json small.json 1f1b rows3:$mixed:host20 2 --ranks 2 --optimizer sgd
weir verify plan.json; echo "exit $?"
plan plan.json small.json pipedream-2bw rows3:$mixed:host20 2 --ranks 2 --optimizer sgd
weir verify plan.json --steps 2; echo "exit $?"
weir profile "dlrm,$sizes" --rows 3 --tables all/columns/rows:host900; echo "exit $?"
weir profile "dlrm,$sizes" --rows 3 --tables slots:host9000; echo "exit $?"
weir profile "dlrm,$sizes" --rows 3 --tables slots:room900; echo "exit $?"
weir profile "dlrm,$sizes" --rows 3 --tables 0@host/1/2; echo "exit $?"
weir profile "dlrm,$sizes" --rows 3 --tables all@host/1/2:host90; echo "exit $?"
weir profile "dlrm,$sizes" --rows 3 --tables host900; echo "exit $?"
