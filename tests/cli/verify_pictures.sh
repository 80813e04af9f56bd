# A residual network with batch norms, by every schedule: its weights, losses and running statistics are those of one
# processor, bit for bit. Whole and run again, with replicas, with fewer pictures in the last micro-batch, in 16 bits.
set -e
export LC_ALL=C
model=resnet18,width=8,pixels=8,channels=1,classes=4,stem=3x3,micro_batch=3
weir profile $model -o profile.json >/dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would not be right, which is said
plan() {  # SCHEDULE RANKS MEMORY ARGUMENTS..
    weir partition profile.json --cluster "$2 devices, $3, 10GB/s 1us" --schedule $1 --micro-batches 4 \
        --optimizer momentum --budget 10000 -o plan.json "${@:4}" >plan.txt  # any plan will do
}
verify() { weir verify plan.json "$@" | sed -n '$p'; }
for schedule in $(weir schedule --help | awk '/^Schedules:/ { on = 1; next } on && !NF { exit } on && $1 != "search" { print $1 }'); do
    if [ $schedule = seq1f1b ]; then
        plan $schedule 2 1GiB 2>&1 && exit 1
        continue
    fi
    ranks=2
    [ $schedule != tables-ahead ] || ranks=1
    plan $schedule $ranks 1GiB
    steps=1
    [[ $schedule =~ pipedream|vertical ]] && steps=2
    said=$(verify --steps $steps)
    [[ $said == 'equal: pipeline and sequential run agree bit for bit, weights and losses' ]] || echo "$schedule: $said"
done
echo '# little memory: stages run again before their backward'
weir profile ${model/pixels=8/pixels=24} -o larger.json >/dev/null
for kibibytes in 5000 4500 4000 3500 3000; do
    weir partition larger.json --cluster "2 devices, ${kibibytes}KiB, 10GB/s 1us" --schedule gpipe --micro-batches 6 \
        --optimizer momentum -o plan.json >plan.txt
    ! grep -q 'runs again' plan.txt || break
done
grep -q 'runs again' plan.txt
verify --steps 1
echo '# in 16 bits'
for row in 'bf16 zb-v' 'bf16 pipedream' 'fp16 1f1b'; do
    read -r kind schedule <<<"$row"
    weir profile ${model/resnet18/resnet18,smoothing=0.1} --device cpu:$kind -o half.json >/dev/null
    weir partition half.json --cluster '2 devices, 1GiB, 10GB/s 1us' --schedule $schedule --micro-batches 4 \
        --optimizer momentum-master --budget 10000 -o plan.json >plan.txt
    verify --steps 1 --device cpu:$kind
done
echo '# the last micro-batch has one picture of three'
plan zb-h1 2 1GiB
verify --batch 10
echo '# replicas; processes'
plan 1f1b 3 1GiB --replicas 2,1
verify
plan 1f1b 2 1GiB
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet weir verify plan.json --device cpu:queued >rank$rank.txt &
done
wait -n
wait -n
sed -n '$p' rank0.txt
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS mpirun -n 2 weir verify plan.json --device cpu:queued,mpi | sed -n '$p' | cmp - <(sed -n '$p' rank0.txt)
fi
