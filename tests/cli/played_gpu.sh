# The GPU's whole part, its host code as it stands, on a CUDA that is played on the CPU (tests/weir_cuda/played): kernels
# and layers against the CPU's, pipelines against the sequential run, in one process and over NCCL, training against the
# CPU's losses, planned bytes against allocated ones, and too little memory. WEIR_SOAK=1 tries every shape and seed.
set -u
export WEIR_PLUGINS=$WEIR_BUILD/tests/weir_cuda/played
if [ ! -e "$WEIR_PLUGINS/weir-cuda.so" ]; then
    echo '# skip: the GPU part is not built here, so it cannot be played (scons cuda=yes says what it lacks)'
    exit 77
fi
unset PLAYED_SEED PLAYED_MEMORY PLAYED_GPUS PLAYED_FAIL PLAYED_CUDNN PLAYED_COUNTS
model=gpt-nano,width=32,blocks=3,heads=2,sequence=16,micro_batch=2
small=${WEIR_SOAK:-small}

for kind in '' :tf32 :bf16 :fp16; do
    for program in tests/device/compare_kernels tests/models/compare_layers; do
        "$WEIR_BUILD/$program" cuda$kind 1 ${small/1/} > compared.txt 2> said.txt || grep FAILED compared.txt
        cat said.txt
        echo "cuda$kind: $(tail -n 1 compared.txt | sed 's/^[0-9]* cases/N cases/')"
    done
done

plan() {  # PLAN PROFILE SCHEDULE OPTIONS OF WEIR PARTITION..
    weir partition $2 --cluster '4 devices, 1GiB, 10GB/s 5us, host 8GiB 25GB/s' --schedule $3 --micro-batches 4 -o $1 \
        "${@:4}" > planned.txt
}
profile() {  # PROFILE OPTIONS..
    weir profile $model --repeats 20 -o $1 "${@:2}" > profiled.txt 2>&1 || cat profiled.txt
}
last() { tail -n 1 | cut -c 1-75; }
verify() {  # PLAN DEVICE OPTIONS..
    echo "$1 on $2: $(weir verify $1.json --device $2 --steps 2 "${@:3}" 2>&1 | last)"
}
profile cpu.json
profile bf16.json --device cuda:bf16  # on which attention takes a workspace of its own
for schedule in 1f1b zb-v; do
    plan $schedule.json cpu.json $schedule
    plan $schedule-bf16.json bf16.json $schedule --optimizer adamw-master
    verify $schedule cuda
    verify $schedule cuda:graphs
    verify $schedule-bf16 cuda:bf16
done
verify zb-v cuda:0,cuda:1,cuda:0,cuda:1

echo 'updated on the host, by the bits of the sequential run, which updates on the GPU:'
plan host.json cpu.json 1f1b --host optimizer,activations
plan host-bf16.json bf16.json 1f1b --optimizer adamw-master --host optimizer
plan window-bf16.json bf16.json 1f1b --optimizer adamw-master --host optimizer --window 1
verify host cuda
verify host-bf16 cuda:bf16
verify window-bf16 cuda:bf16,graphs

echo 'experts, whose counts stay on the GPU:'
for router in mixtral deepseek,groups=4/2,capacity=dropless; do
    model=${model/gpt-nano/gpt-moe-nano},router=$router profile experts-profile.json
    plan experts.json experts-profile.json zb-h1 --ranks 2
    verify experts cuda
    verify experts cuda:graphs
done

echo 'experts on two members, on one GPU and on two:'
model=${model/gpt-nano/gpt-moe-nano} profile members-profile.json --rows 2 --experts dealt
plan members.json members-profile.json zb-h1 --ranks 2 --variants rows2:dealt,rows2:dealt
verify members cuda
verify members cuda:graphs
verify members cuda:0,cuda:1,cuda:0,cuda:1

echo 'by NCCL, a process for each rank:'
plan two.json cpu.json zb-v --ranks 2
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 \
        weir verify two.json --device cuda:0 --steps 2 > rank$rank.txt 2>&1 &
done
wait
last < rank0.txt

echo 'trained:'
seq 20000 > text.txt
train() { weir train $model --plan two.json --device $1 --data text.txt --steps 4 2>&1; }
train cpu | grep -o '^step .* loss [0-9.]*' > cpu.txt
train cuda > cuda.out
grep -o '^step .* loss [0-9.]*' cuda.out > cuda.txt
paste cpu.txt cuda.txt |
    awk '{ far += ($6 - $12 > 2e-4 || $12 - $6 > 2e-4) } END { print NR " losses, " far + 0 " of them far from those of the cpu" }'
awk '/peak bytes/ { n++; bad += $5 != $6 } END { print n - bad " of " n " peaks agree" }' cuda.out

echo 'without the memory:'
for bytes in 100000 20000000; do
    PLAYED_MEMORY=$bytes weir verify two.json --device cuda --steps 1 2>&1 | sed 's/rank [01]: //; s/.*memory for .* on/memory for .. on/; s/: 0[A-Z]*[0-9]*:/:/'
    echo "exit ${PIPESTATUS[0]}"
done

echo 'pictures in 16 bits, which a GPU does not compute:'
weir profile fashion-cnn,micro_batch=4 --device cuda:bf16 2>&1; echo "exit $?"
