# Whatever can be planned runs with messages by MPI, too: bit for bit the sequential run, or the formula, of asynchronous
# schedules, orders of one's own, parts of sequences, branches, every optimizer, signs between replicas, shared states,
# the host, a last micro-batch with fewer samples, fp16, layers split over devices, and their rows; trained, and gone on
# with from checkpoints. Between processes of one machine, by each MPI that is here. WEIR_SOAK=1 tries all of it by each;
# otherwise plans that send the same as another one are left out, and a second MPI gets one plan of each kind of message.
case $WEIR_BUILD in *asan* | *tsan*)
    echo '# skip: MPI itself leaks and races in the eyes of the sanitizers'
    exit 77 ;;
esac
if [ ! -e "$WEIR_BUILD/lib/weir-mpi.so" ] || ! command -v mpirun >/dev/null; then
    echo '# skip: weir-mpi.so is not built here (scons mpi=yes says what it lacks), or there is no mpirun'
    exit 77
fi
unset WEIR_PLUGINS  # it is found without
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o gpt.json &>/dev/null
weir profile "$model,tied" -o tied.json &>/dev/null
weir profile gpt-nano,width=32,blocks=3,heads=2,sequence=64 -o long.json &>/dev/null
weir profile "$model" --device cpu:fp16 -o fp16.json &>/dev/null
weir profile "$model" --tensor 2 -o tensor.json &>/dev/null
weir profile "$model" --device cpu:fp16 --tensor 2 -o fp16-tensor.json &>/dev/null
weir profile mlp-unet,width=16,blocks=2,sequence=8,micro_batch=2 -o unet.json &>/dev/null
seq 20000 >data.txt

of_each_kind='dualpipe parts pipedream shared-weights signs-chimera host split-replicas'
tried="$of_each_kind mine branches-zb-v lars shared-gradients signs window-replicas batch-replicas fp16-replicas split-one
split-rows-dualpipe shared-adam8bit"
is_in() { [[ ${WEIR_SOAK:-} || " ${2//$'\n'/ } " == *" $1 "* ]]; }  # NAME NAMES
plan() {  # NAME RANKS PROFILE SCHEDULE OPTIONS..
    is_in $1 "$tried" || return 0
    weir partition $3.json --cluster "$2 devices, 1GiB, 10GB/s 1us, host 1GiB 2000GB/s" --schedule $4 --budget 1000 \
        "${@:5}" -o "$1-$2.json" >/dev/null 2>said || { grep -v untrusted said; return 1; }
}
for schedule in looped-bfs interleaved-zb zb-h2 v-half v-min dualpipe dualpipev hanayo pipedream vertical pipedream-2bw; do
    plan $schedule 2 gpt $schedule --micro-batches 4
done
printf '0F0,0F1,0F2,0B1,0B0,0F3,0B3,0B2\n1F1,1F0,1I1,1I0,1W0,1W1,1F2,1F3,1B3,1B2\n' >mine.csv
plan mine 2 gpt ./mine.csv
weir schedule 1f1b --ranks 2 --micro-batches 4 --format json | sed -E 's/([0-9]+)B([0-9]+)/\1R\2 \1B\2/g' >again.json
weir price gpt.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule ./again.json --cuts '[4,4]' --recompute '[3,3]' \
    -o again-2.json >/dev/null 2>said || cat said
grep -q '"again_bytes"' again-2.json || echo "nothing is recomputed"
plan parts 2 long seq1f1b --micro-batches 4
for schedule in 1f1b zb-v pipedream; do
    plan branches-$schedule 2 unet $schedule --micro-batches 4
done
for optimizer in sgd momentum adam lars lamb adafactor adam8bit; do
    plan $optimizer 2 tied chimera --micro-batches 4 --tied apart --optimizer $optimizer
done
for shard in optimizer gradients weights; do
    plan "shared-$shard" 3 gpt 1f1b --micro-batches 6 --replicas 2,1 --shard $shard
done
plan signs 3 gpt 1f1b --micro-batches 6 --replicas 2,1 --optimizer adam1bit
plan signs-chimera 2 gpt chimera --micro-batches 4 --optimizer adam1bit
for optimizer in lars lamb adafactor adam8bit; do
    plan shared-$optimizer 4 gpt 1f1b --micro-batches 6 --replicas 3,1 --optimizer $optimizer --shard gradients
done
plan shared-ahead 3 gpt 1f1b --micro-batches 6 --replicas 2,1 --shard weights --window 2
plan shared-3 4 gpt gpipe --micro-batches 4 --replicas 3,1 --shard weights
plan shared-chimera 2 gpt chimera --micro-batches 4 --shard gradients
plan host 2 gpt zb-h1 --micro-batches 4 --host optimizer,activations
plan window 2 gpt 1f1b --micro-batches 4 --host optimizer,activations --window 1
plan window-replicas 3 gpt 1f1b --micro-batches 4 --replicas 2,1 --host optimizer --window 2
plan batch 2 tied zb-v --micro-batches 4 --tied apart
plan batch-replicas 3 gpt 1f1b --micro-batches 4 --replicas 2,1 --shard optimizer
plan fp16 2 fp16 zb-v --micro-batches 4 --optimizer adamw-master
plan fp16-replicas 3 fp16 1f1b --micro-batches 4 --replicas 2,1 --shard weights --optimizer adamw-master
# A process for each member of each rank.
plan split 4 tensor 1f1b --micro-batches 4 --ranks 2 --variants tensor2,tensor2
plan split-dualpipe 4 tensor dualpipe --micro-batches 4 --ranks 2 --variants tensor2,tensor2 --shard weights
plan split-replicas 6 tensor 1f1b --micro-batches 4 --ranks 3 --replicas 2,1 --variants tensor2,tensor2 --shard optimizer
plan split-one 3 tensor 1f1b --micro-batches 4 --ranks 2 --variants -,tensor2
plan split-rows 4 tensor 1f1b --micro-batches 4 --ranks 2 --variants tensor2sp,tensor2sp
plan split-rows-dualpipe 4 tensor dualpipe --micro-batches 4 --ranks 2 --variants tensor2sp,tensor2sp --shard weights
plan split-rows-replicas 6 tensor 1f1b --micro-batches 4 --ranks 3 --replicas 2,1 --variants tensor2sp,tensor2sp \
    --shard gradients
plan split-fp16 4 fp16-tensor 1f1b --micro-batches 4 --ranks 2 --variants tensor2,tensor2 --optimizer adamw-master

train() {  # MPIRUN PLAN STEPS OPTIONS..
    $1 -n 2 weir train "$model" --plan $2 --data data.txt --steps $3 --flush-every 2 --device cpu:queued,mpi "${@:4}"
}
# By its name: the kind of numbers, and what its runs are told besides.
named() {  # NAME
    kind= more=
    case $1 in *fp16*) kind=fp16, more="--loss-scale 65536,2 --clip 0.5" ;; esac
    case $1 in batch*) more="--batch 7 --clip 0.5" ;; esac
    case $1 in signs*) more="--freeze-step 1" ;; esac
}
# Half-way, and gone on with: as trained by threads in one go.
resumed() {  # MPIRUN NAME PROCESSES
    local turn by=(weir train "$model" --plan $2-$3.json --data data.txt --steps 6 --save-every 3 --keep 9)
    named $2
    case $2 in signs*) more="--freeze-step 2 --rate 0.0003" ;; esac  # without a little of each it would not learn
    rm -rf whole ended
    "${by[@]}" $more --device cpu${kind:+:${kind%,}} --checkpoints whole &>err.txt || cat err.txt
    for turn in 1 2; do
        rm -rf ended/step-6
        $1 -n $3 "${by[@]}" $more --device cpu:${kind}queued,mpi --checkpoints ended --resume &>err.txt || cat err.txt
    done
    (cd whole/step-6 && sha256sum *.safetensors) >hashes.txt
    (cd ended/step-6 && sha256sum -c --quiet ../../hashes.txt) || echo "$2: not gone on with as by threads"
}
by() {  # MPIRUN NAMES, of the plans, and of those that are gone on with
    local file name ranks kind more said equal=0
    for file in *-[0-9].json; do
        name=${file%-*} ranks=${file##*-}
        is_in $name "$2 again" || continue
        named $name
        $1 -n ${ranks%.json} weir verify $file --steps 2 $more --device cpu:${kind}queued,mpi >said.txt 2>err.txt
        grep -q '^equal: pipeline and sequential run.* agree bit for bit, weights and losses' said.txt &&
            equal=$((equal + 1)) || { echo "$name:"; cat said.txt err.txt; }
    done
    [ $equal -gt $(wc -w <<< "$2") ] && echo "equal, bit for bit: all others" || echo "only $equal are equal"
    for name in batch-replicas-3 fp16-2 fp16-replicas-3 shared-lamb-4 shared-adam8bit-4 signs-3 split-4 split-replicas-6 split-rows-4; do
        is_in ${name%-*} "$3" && resumed $1 ${name%-*} ${name##*-}
    done
    # Half-way, gone on with by the same plan; then by another.
    rm -rf whole ended
    train $1 pipedream-2.json 8 --checkpoints whole --save-every 8 &>err.txt || cat err.txt
    train $1 pipedream-2.json 8 --checkpoints ended --save-every 4 --keep 2 &>err.txt || cat err.txt
    rm -r ended/step-8
    train $1 pipedream-2.json 8 --checkpoints ended --save-every 4 --resume &>err.txt || cat err.txt
    (cd whole/step-8 && sha256sum *.safetensors) >hashes.txt
    (cd ended/step-8 && sha256sum -c --quiet ../../hashes.txt) && echo "gone on with"
    rm -rf alone
    cp -r ended alone
    weir train "$model" --plan host-2.json --data data.txt --steps 10 --flush-every 2 --checkpoints alone --resume \
        &>err.txt || cat err.txt
    train $1 host-2.json 10 --checkpoints ended --resume >train.txt 2>err.txt || cat err.txt
    (cd alone/step-10 && sha256sum *.safetensors) >hashes.txt
    (cd ended/step-10 && sha256sum -c --quiet ../../hashes.txt) && echo "as by threads"
    awk '/(peak|host) bytes/ && $5 != $6 { print "differs: " $0 } /(peak|host) bytes/ { n++ }
         END { print "by another plan: " n " sums of bytes" }' train.txt
}
by mpirun "$tried" 'batch-replicas fp16-replicas signs split-replicas' | tee first.txt
for other in openmpi mpich; do
    [ -e "$WEIR_BUILD/lib/weir-mpi-$other.so" ] && command -v mpirun.$other >/dev/null || continue
    by mpirun.$other "$of_each_kind" 'fp16-replicas split-replicas' >other.txt
    diff first.txt other.txt
done
