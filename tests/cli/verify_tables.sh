# Models of clicks: profiled, planned, and run with the bits of a sequential run, by all kinds of schedules, with tables on
# a stage of their own, layers run again, replicas, a short last micro-batch, and processes; and what is refused.
profile() {  # PROFILE MODEL
    weir profile "$2" -o $1 >/dev/null 2>&1 || echo "no profile of $2"
}
plan() {  # PLAN PROFILE RANKS SCHEDULE OPTIONS OF WEIR PARTITION..
    rm -f $1
    weir partition $2 --cluster "$3 devices, 1GiB, 10GB/s 1us" --schedule $4 --micro-batches 4 -o $1 "${@:5}" >/dev/null 2>&1
}
said() {
    tail -n 1 | sed 's/: pipeline and.*//'
}
dlrm="dlrm,numbers=4,rows=50/7/300,columns=8,ids=3,bottom=16,top=16,micro_batch=8"
profile dlrm.json "$dlrm"
for optimizer in sgd adagrad adamw; do
    for schedule in gpipe 1f1b interleaved zb-h1 chimera pipedream pipedream-2bw; do
        plan $schedule.json dlrm.json 2 $schedule --optimizer $optimizer
        echo "dlrm by $schedule, $optimizer: $(weir verify $schedule.json --steps 3 2>&1 | said)"
    done
done
# Gradients are lists of rows here, beside a sequential run's as large as the tables.
profile large.json "dlrm,numbers=4,rows=5000/7/3000,columns=8,ids=3,bottom=16,top=16,micro_batch=8"
profile few.json "dlrm,numbers=4,rows=2/3/4,columns=8,ids=3,bottom=16,top=16,micro_batch=16"
for model in large few; do
    for optimizer in sgd adagrad adagrad-rows adam-rows; do
        plan lists.json $model.json 2 zb-h1 --optimizer $optimizer
        echo "$model tables, lists of rows, $optimizer, clipped: $(weir verify lists.json --steps 4 --clip 0.01 2>&1 | said)"
    done
done
# Copies of a stage send each other their lists.
for schedule in "chimera --ranks 4" "dualpipe --ranks 2" "1f1b --replicas 2,2" "gpipe --replicas 3,1"; do
    for optimizer in sgd adagrad adagrad-rows adam-rows; do
        plan copies.json large.json 4 $schedule --optimizer $optimizer
        echo "lists of copies by $schedule, $optimizer: $(weir verify copies.json --steps 4 --clip 0.01 2>&1 | said)," \
            "a short last micro-batch: $(weir verify copies.json --batch 27 --device cpu:queued 2>&1 | said)"
    done
done
python3 - <<'END'
import json
memory = json.load(open('copies.json'))['stages'][0]['memory']
print('gradients of three copies have less than a third of the tables:',
      memory['gradients_bytes'] < memory['weights_bytes'] / 3 or memory)
END
plan copies.json few.json 4 1f1b --replicas 2,2 --optimizer adam-rows
echo "small tables, whose lists adam-rows needs: $(weir verify copies.json 2>&1 | said)"
# Without a flush tables are updated in place, and older versions are lists of the rows that changed.
for schedule in pipedream vertical pipedream-2bw; do
    for optimizer in sgd adagrad adagrad-rows; do
        weir price large.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule $schedule --micro-batches 9 \
            --cuts "[3,3,5]" --recompute "[2,3,0]" --optimizer $optimizer -o again.json >/dev/null 2>&1
        plan lists.json large.json 3 $schedule --optimizer $optimizer
        plan dense.json large.json 3 $schedule --optimizer momentum
        echo "tables in place by $schedule, $optimizer: $(weir verify lists.json --steps 4 2>&1 | said)," \
            "run again: $(weir verify again.json --steps 4 --device cpu:queued 2>&1 | said)"
    done
    python3 - <<'END'
import json
lists, dense = (max(json.load(open(f'{name}.json'))['stages'], key=lambda stage: stage['memory']['weights_bytes'])
                for name in ('lists', 'dense'))
versions = lists['memory']['versions_bytes'], dense['memory']['versions_bytes']
print('an older version has less than a tenth of the tables:', versions[0] < versions[1] / 10 or versions)
END
done
profile crosses.json "dlrm,numbers=3,rows=50/7/300,columns=8,cross=2,rank=4,weighted,ids=2,bottom=8,top=16,micro_batch=8"
profile wide.json "wide-and-deep,numbers=3,rows=50/7/300,columns=6,ids=4,mean,top=16,micro_batch=8"
profile deepfm.json "deepfm,numbers=0,rows=50/7/300,columns=6,top=16,micro_batch=8"
for model in crosses wide deepfm; do
    for schedule in 1f1b zb-v pipedream-2bw; do
        plan plan.json $model.json 2 $schedule
        echo "$model by $schedule: $(weir verify plan.json --steps 2 2>&1 | said)"
    done
done
weir price dlrm.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule zb-h1 --micro-batches 4 --cuts "[1,4,6]" \
    --recompute "[1,3,0]" -o own.json >/dev/null 2>&1
echo "tables on a stage of their own, run again: $(weir verify own.json --steps 2 2>&1 | said)"
weir price dlrm.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule zb-h1 --micro-batches 4 --cuts "[1,4,6]" \
    --recompute "[1,3,0]" --optimizer adam-rows -o own.json >/dev/null 2>&1
echo "the same by a list of rows: $(weir verify own.json --steps 2 2>&1 | said)"
plan replicas.json dlrm.json 4 1f1b --replicas 2,2
echo "replicas, clipped: $(weir verify replicas.json --clip 0.01 2>&1 | said)"
echo "a short last micro-batch: $(weir verify replicas.json --batch 27 2>&1 | said)"
profile many.json "dlrm,numbers=2,slots=26,rows=20,columns=4,bottom=8,top=8,micro_batch=4"
plan many.plan.json many.json 2 1f1b
echo "as many tables as Criteo has, which do not decay: $(weir verify many.plan.json 2>&1 | said)"
weir profile "$dlrm" --rows 2,3 -o rows.json >/dev/null 2>&1
for row in 1f1b:rows2 zb-h1:rows3 pipedream:rows2 pipedream-2bw:rows3; do
    weir partition rows.json --cluster "6 devices, 1GiB, 10GB/s 1us" --schedule ${row%:*} --micro-batches 4 \
        --optimizer adagrad --variants ${row#*:},${row#*:} -o plan.json >/dev/null 2>&1
    echo "${row#*:} by ${row%:*}, tables on each device: $(weir verify plan.json 2>&1 | said), a short last micro-batch:" \
        "$(case $row in *p*d*) ;; *) weir verify plan.json --batch 26 2>&1 | said ;; esac)"
done
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify zb-h1.json --device cpu:queued >rank$rank.txt 2>&1 &
done
wait
echo "processes: $(said <rank0.txt)"

exec 2>&1
weir profile "$dlrm" --device cpu:bf16 >/dev/null; echo "exit $?"
weir profile "$dlrm" --tensor 2 >/dev/null; echo "exit $?"
weir partition dlrm.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule seq1f1b --micro-batches 4 2>&1 | tail -n 1
seq 9000 >data.txt
weir train "$dlrm" --plan 1f1b.json --data data.txt --steps 1; echo "exit $?"
