# Layers split over groups of devices: planned, and run bit for bit as all shards in one place compute it.
exec 2>&1
model=gpt-nano,width=32,heads=4,blocks=2,sequence=16,micro_batch=2
plan() { weir partition "$1" --cluster "8 devices, ${memory:-1GiB}, 5GB/s 2us" --micro-batches 4 "${@:2}" -o plan.json >/dev/null 2>&1; }
run() { weir verify plan.json "$@" | tail -n 1; }
trusted() { sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' $1; }  # a busy machine's would not be, which is said

echo "# in two, and in four with dropout"
weir profile $model --tensor 2,4 -o two.json >/dev/null
trusted two.json
weir profile $model,dropout=0.1 --tensor 4 -o four.json >/dev/null
plan two.json --schedule 1f1b --variants tensor2,tensor2 && run && run --device cpu:queued
plan four.json --schedule 1f1b --variants tensor4,tensor4 && run && run --device cpu:queued

echo "# with backwards in two parts, two copies, weight versions, replicas and layers that are recomputed"
for schedule in zb-h1 dualpipe pipedream; do
    plan two.json --schedule $schedule --variants tensor2,tensor2 && run
done
plan two.json --schedule 1f1b --variants tensor2,tensor2 --replicas 2,1 && run
memory=380KiB plan two.json --schedule gpipe --variants tensor2,tensor2 && grep -q '"recompute": \[$' plan.json && run

echo "# a device for each member of each rank, in one process and in several"
q=cpu:queued
together() {  # PROCESSES COMMAND.., each with the variables that launchers set
    local ranks=$1 codes="" rank
    for ((rank = 0; rank < ranks; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$ranks WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 "${@:2}" >rank$rank.txt 2>&1 &
    done
    for job in $(jobs -p); do wait $job; codes="$codes $?"; done
    echo "exit$codes, $(tail -n 1 rank0.txt)"
}
for row in tensor2,tensor2:4 tensor2,tensor4:6 -,tensor2:3; do
    plan two.json --schedule 1f1b --variants ${row%:*}
    devices=$(printf ",$q%.0s" $(seq ${row#*:}))
    run --device ${devices#,}
    together ${row#*:} weir verify plan.json
done
plan two.json --schedule 1f1b --variants tensor2,tensor2 --replicas 2,1 --shard optimizer && together 6 weir verify plan.json
plan two.json --schedule dualpipe --variants tensor2,tensor2 && together 4 weir verify plan.json
plan two.json --schedule dualpipe --variants tensor2,tensor2 --shard weights && run && together 4 weir verify plan.json --clip 0.5
together 3 weir verify plan.json
run --device $q,$q
plan two.json --schedule 1f1b --variants tensor2,tensor2,- --replicas 1,2,1 --shard optimizer && run && run --device $q,$q,$q,$q,$q,$q,$q

echo "# trained, kept as whole layers, gone on from to the bit, and by a plan that splits nothing"
for i in $(seq 1200); do echo "line $i of a text that evens out the flow"; done > text
train() {  # when a checkpoint between two others is whole goes by the disk, and so does what is said of it
    weir train $model --plan $1.json --data text --steps 6 --every 6 --checkpoints $2 --save-every 3 --keep 9 --resume \
        2>train.err
    local code=$?
    grep -v ' is kept$' train.err >&2; return $code
}
plan two.json --schedule 1f1b --variants tensor2,tensor2 && cp plan.json split.json
plan two.json --schedule 1f1b --ranks 2 && mv plan.json whole.json
train split once > table.txt; echo "exit $?"
awk '/peak bytes/ { print $1, $2, $3, $4, $5 == $6 ? "as planned" : "not as planned" }' table.txt
together 4 weir train $model --plan split.json --data text --steps 6 --every 6 --checkpoints apart --save-every 3 --keep 9 | cut -d , -f 1
diff -r once/step-6 apart/step-6 && echo "the same bits"
cp -r once again && rm -r again/step-6 && cp -r again other
train split again > again.txt; echo "exit $?"
diff -r once/step-6 again/step-6 && echo "the same bits"
train whole other > other.txt; echo "exit $?"
weir eval $model --checkpoint once --data text > once.txt; echo "exit $?"

plan two.json --schedule 1f1b --variants tensor2,tensor2 --replicas 2,1 --shard gradients && mv plan.json shared.json
train shared together >together.txt; echo "exit $?"
together 6 weir train $model --plan shared.json --data text --steps 6 --every 6 --checkpoints apart3 --save-every 3 --keep 9 | cut -d , -f 1
diff -r together/step-6 apart3/step-6 && echo "the same bits"

echo "# groups of unlike size: members follow the stages that are not on them"
for variants in tensor2,- -,tensor2 tensor2,-,tensor2 tensor2,tensor4 auto; do
    plan two.json --schedule 1f1b --variants $variants && run
done
run --device cpu:queued
plan two.json --schedule zb-h1 --variants -,tensor4 && run
plan two.json --schedule zb-v --ranks 2 --variants tensor2,-,-,tensor2 && run && run --device $q,$q,$q  # two of each rank
plan two.json --schedule 1f1b --variants tensor2,- --shard weights && run && run --device $q,$q,$q  # nobody to share with
plan two.json --schedule gpipe --variants -,tensor2,- && cp plan.json unlike.json
train unlike fresh > table.txt; echo "exit $?"
awk '/peak bytes/ { print $1, $2, $3, $4, $5 == $6 ? "as planned" : "not as planned" }' table.txt
together 4 weir train $model --plan unlike.json --data text --steps 6 --every 6 --checkpoints apart2 --save-every 3 --keep 9 | cut -d , -f 1
diff -r fresh/step-6 apart2/step-6 && echo "the same bits"
rm -r apart2/step-6
together 4 weir train $model --plan unlike.json --data text --steps 6 --every 6 --checkpoints apart2 --save-every 3 --keep 9 --resume | cut -d , -f 1
diff -r fresh/step-6 apart2/step-6 && echo "the same bits"
cp -r fresh gone && rm -r gone/step-6
train unlike gone > again.txt; echo "exit $?"
diff -r fresh/step-6 gone/step-6 && echo "the same bits"

echo "# sequence parallel: members share the rows of what is handed on, too"
weir profile $model --tensor 2 -o shares.json >/dev/null
for schedule in 1f1b zb-h1 dualpipe pipedream; do
    plan two.json --schedule $schedule --variants tensor2sp,tensor2sp && run
done
run --device cpu:queued
plan four.json --schedule 1f1b --variants tensor4sp,tensor4sp && run && run --device cpu:queued --clip 0.5 && together 8 weir verify plan.json
plan two.json --schedule 1f1b --variants tensor2sp,tensor2sp --replicas 2,1 --shard optimizer && run && together 6 weir verify plan.json
plan two.json --schedule dualpipe --variants tensor2sp,tensor2sp --shard weights && run && together 4 weir verify plan.json --clip 0.5
plan two.json --schedule 1f1b --variants tensor2sp,tensor2sp && cp plan.json sp.json
train sp shared_rows > table.txt; echo "exit $?"
awk '/peak bytes/ { print $1, $2, $3, $4, $5 == $6 ? "as planned" : "not as planned" }' table.txt
together 4 weir train $model --plan sp.json --data text --steps 6 --every 6 --checkpoints apart4 --save-every 3 --keep 9 | cut -d , -f 1
diff -r shared_rows/step-6 apart4/step-6 && echo "the same bits"
cp -r shared_rows split_rows && rm -r split_rows/step-6
train split split_rows > again.txt; echo "exit $?"
least() { weir partition shares.json --cluster "4 devices, 245KiB, 5GB/s 2us" --micro-batches 4 --schedule 1f1b "$@" -o plan.json >/dev/null 2>&1; echo "exit $?"; }
least --variants tensor2,tensor2
least --variants auto && grep -c '"variant": "tensor2sp"' plan.json && grep -q '"recompute": \[$' plan.json && run
for variants in tensor2sp,tensor2 -,tensor2sp; do
    weir partition two.json --cluster "8 devices, 1GiB, 5GB/s 2us" --micro-batches 4 --schedule 1f1b --variants $variants
done
sed '0,/tensor2sp/s//tensor2/' sp.json > mixed.json && weir verify mixed.json

echo "# a member that is killed ends all others, by its name"
(
    plan two.json --schedule 1f1b --variants tensor2,tensor2
    for rank in 0 1 2 3; do
        WEIR_RANK=$rank WEIR_RANKS=4 WEIR_RENDEZVOUS=$PWD/meet weir train $model --plan plan.json \
            --data text --steps 1000000 --device $q >killed$rank.txt 2>killed$rank.err &
        pids[$rank]=$!
    done
    for ((tries = 0; tries < 2400; tries++)); do grep -q "^step" killed0.txt && break; sleep 0.05; done
    kill -9 ${pids[3]}
    for rank in 0 1 2; do
        wait ${pids[$rank]}
        echo "exit $?, $(tail -n 1 killed$rank.err | sed 's/process [0-9]* on .*)/process N on HOST)/')"
    done
) 2>/dev/null

echo "# clipped by the norm of what all members have"
plan two.json --schedule 1f1b --variants tensor2,tensor4 && run --clip 0.5 && together 6 weir verify plan.json --clip 0.5
plan two.json --schedule zb-h1 --variants -,tensor2 && run --clip 0.5 && together 3 weir verify plan.json --clip 0.5

echo "# sequences in parts"
weir profile gpt-nano,width=32,heads=4,blocks=2,sequence=64,micro_batch=4 --tensor 2 -o long.json >/dev/null
plan long.json --schedule seq1f1b --variants tensor2,tensor2 && run && together 4 weir verify plan.json
weir profile gpt-nano,width=32,heads=4,blocks=2,sequence=128,micro_batch=4,dropout=0.1 --tensor 2 -o longer.json >/dev/null
plan longer.json --schedule seq1f1b --variants tensor2sp,tensor2sp && run && together 4 weir verify plan.json
plan long.json --schedule seq1f1b --variants tensor2sp,tensor2sp && run
plan long.json --schedule seq1f1b --variants -,tensor2 && run --clip 0.5 && together 3 weir verify plan.json --clip 0.5

echo "# tied words: on groups of one size"
weir profile $model,tied --tensor 2 -o tied.json >/dev/null
trusted tied.json
plan tied.json --schedule 1f1b --tied apart --variants tensor2,tensor2 && run
plan tied.json --schedule 1f1b --tied apart --variants tensor2sp,tensor2sp && run
weir partition tied.json --cluster "4 devices, 1GiB, 5GB/s 2us" --micro-batches 4 --schedule 1f1b --tied apart \
    --variants tensor2,- -o refused.json; echo "exit $?"
plan tied.json --schedule 1f1b --tied apart --variants auto --ranks 2 && run

echo "# vocabularies that are shared with their padding, and one that cannot be"
small=width=16,heads=2,blocks=1,sequence=8,micro_batch=2
for model in gpt2,$small,padded gpt2,$small,padded,untied gpt2,$small; do
    weir profile $model --tensor 2 -o words.json >/dev/null 2>&1
    grep -c tensor2 words.json
    plan words.json --schedule 1f1b --tied apart --variants tensor2sp,tensor2sp && run --steps 1 && together 4 weir verify plan.json --clip 0.5
    plan words.json --schedule 1f1b --tied apart --variants tensor2,tensor2 && run --steps 1
done
together 4 weir verify plan.json --steps 1 --clip 0.5

echo "# what is not run"
for optimizer in lars lamb adafactor adam8bit adam1bit; do
    weir partition two.json --cluster '4 devices, 1GiB, 5GB/s 2us' --schedule 1f1b --micro-batches 4 --ranks 2 \
        --variants auto --optimizer $optimizer -o refused.json 2>&1
    echo "exit $?"
done
sed 's/tensor2/split2/g' two.json > other.json
plan other.json --schedule 1f1b --variants split2 && run
exit 0
