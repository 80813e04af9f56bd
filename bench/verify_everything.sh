#!/bin/bash
# Runs `weir verify` for all combinations: each schedule on 1 to 6 ranks, with each of the features below. Places are
# threads, threads with a queue each, processes, and MPI if it is built and mpirun is there. Prints a line for each
# combination that was refused or failed. It failed if results differ, if it did not end, or if it was refused for a
# reason that neither docs/what-runs-where.md nor a schedule's own rules give. Takes an hour on two cores.
#
#     bench/verify_everything.sh [EVERY [FIRST]]      each EVERY-th combination, from the FIRST-th (1 and 1)
#     WEIR_GPU=cuda WEIR_GPUS=2 bench/verify_everything.sh ..     on that many GPUs; with PLAYED_GPUS=16 and
#         WEIR_PLUGINS=build/release/tests/weir_cuda/played on emulated GPUs (WEIR_LIMIT=600: seconds for each)
set -u
ROOT=$(realpath "$(dirname "$0")/..") build=$(realpath "${WEIR_BUILD:-$ROOT/build/release}")
export PATH=$build/bin:$PATH WEIR_LIBEXEC=${WEIR_LIBEXEC:-$build/libexec} WEIR_PLUGINS=${WEIR_PLUGINS:-$build/lib}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe LC_ALL=C.UTF-8
every=${1:-1} first=${2:-1} gpu=${WEIR_GPU:-} gpus=${WEIR_GPUS:-2} limit=${WEIR_LIMIT:-120}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

schedules="gpipe 1f1b pipedream vertical pipedream-2bw interleaved looped-bfs zb-h1 zb-h2 interleaved-zb zb-v v-half v-min
    chimera dualpipe dualpipev hanayo seq1f1b"

# NAME PROFILE MICRO-BATCHES-OF-P-RANKS REPLICAS, then options of weir partition, "/" and options of weir verify.
# REPLICAS: those of the first and the last stage.
features() {
    cat <<'ROWS'
plain       gpt      2*p    1 1
uneven      gpt      2*p+1  1 1
few         gpt      1      1 1
again       gpt      2*p    1 1  --tight
batch       gpt      2*p    1 1  / --batch 4*p-1
clip        gpt      2*p    1 1  --optimizer lamb / --clip 0.5
dropout     dropout  2*p    1 1
tied        tied     2*p    1 1  --tied together
apart       tied     2*p    1 1  --tied apart / --clip 0.5
skips       unet     2*p    1 1
split       tensor   2*p    1 1  --tensor
fp16        fp16     2*p    1 1  --optimizer adamw-master / --loss-scale 16777216,2
bf16        bf16     2*p    1 1  --optimizer momentum-master
sgd         gpt      2*p    1 1  --optimizer sgd
lars        gpt      2*p    1 1  --optimizer lars
adafactor   gpt      2*p    1 1  --optimizer adafactor
adam8bit    gpt      2*p    1 1  --optimizer adam8bit
host        gpt      2*p    1 1  --host optimizer,activations
window      gpt      2*p    1 1  --host optimizer --window 2
zero1       gpt      2*p    1 1  --shard optimizer
zero3       gpt      2*p    1 1  --shard weights
replicas    gpt      6*p    2 3
replicas+   gpt      2*p+1  3 1
replicas-1  gpt      2*p+1  2 3  --shard optimizer
replicas-2  gpt      2*p+1  3 1  --shard gradients / --clip 0.5
replicas-3  gpt      2*p+1  2 3  --shard weights
replicas-a  gpt      6*p    1 2  --shard weights --window 2
replicas-h  gpt      6*p    2 1  --shard weights --host optimizer,activations
replicas-s  tensor   4*p    2 1  --tensor --shard optimizer
replicas-b  gpt      2*p+1  2 3  --shard weights --optimizer adam8bit
replicas-t  gpt      2*p+1  3 1  --shard gradients --optimizer lamb / --clip 0.5
signs       gpt      6*p    2 3  --optimizer adam1bit / --freeze-step 1
rows        tensor   2*p    1 1  --rows
rows-3      tensor   4*p    2 1  --rows --shard weights
ROWS
}

# Permitted reasons for a refusal: the schedules' own rules of ranks, micro-batches and replicas, and those in
# docs/what-runs-where.md.
cat >known <<'SENTENCES'
ranks must be even
micro-batches must be
has one rank for each stage; replicas are for
stages? at most, too few for
needs two micro-batches for each rank
needs an even number of micro-batches, at least two for each rank
^no plan fits
^no plan that fits was found
wait for each other for ever
updates in different orders
needs several versions of the weights at hand
at a flush, which an asynchronous schedule has not
which is known at a flush only
is for a schedule that flushes
which has no flush, step at different times
SENTENCES

# The device for a type of numbers: "", fp16 or bf16.
device() {
    echo "${gpu:-cpu}${1:+:$1}"
}
# Measured in fp32 on the processor, where layers take the same bytes, though not the same time.
profile() {
    weir profile "${@:2}" -o $1.json &>said || { cat said; exit 3; }
}
profiles() {  # FOLDER TOKENS
    local model=gpt-nano,width=16,blocks=6,heads=2,sequence=$2,micro_batch=2
    mkdir $1
    profile $1/gpt $model
    profile $1/dropout $model,dropout=0.1
    profile $1/tied $model,tied
    profile $1/fp16 $model --device $(device fp16) --repeats 20
    profile $1/bf16 $model --device $(device bf16) --repeats 20
    profile $1/tensor $model --tensor 2
    profile $1/unet mlp-unet,width=16,blocks=4,sequence=$2,micro_batch=2
}
profiles whole 8
profiles parts 256  # of as many as have something to split

equal=0 refused=0 failed=0 number=0
row() { printf '%-8s %-15s %s ranks  %-10s  %-9s %s\n' "$@"; }

# Counts the result of a command whose output is in the file `said`, and prints it unless it is equal.
count() {  # CODE SCHEDULE RANKS FEATURE PLACE
    local said code=$1
    said=$(tr '\r' '\n' <said | grep '^weir: ' | grep -v untrusted | head -n 1)
    said=${said#weir: }
    if [ $code = 0 ] && grep -q '^equal' said; then
        equal=$((equal + 1))
    elif { [ $code = 1 ] || [ $code = 2 ]; } && ! grep -q '^differ' said && grep -q -E -f known <<<"$said"; then
        refused=$((refused + 1))
        row refused $2 $3 $4 $5 "$said"
    else
        failed=$((failed + 1))
        row FAILED $2 $3 $4 $5 "exit $code: ${said:-$(tail -n 1 said)}"
    fi
}

partition() {  # MEMORY DEVICES PROFILE SCHEDULE MICRO-BATCHES OPTIONS..
    weir partition $3.json --cluster "$2 devices, $1, 10GB/s 1us, host 8GiB 25GB/s" --schedule $4 --micro-batches $5 \
        --budget 200 "${@:6}" -o plan.json &>said
}

# Plans with nine tenths of the memory that the plan with ample memory takes.
tight() {
    partition 1GiB "$@" || return
    partition $(awk -F'[:,]' '/"peak_bytes"/ && $2 > most { most = $2 } END { print int(most * 0.9) "B" }' plan.json) "$@"
}

together() {  # PROCESSES COMMAND..
    local rank code=0 jobs=()
    rm -f meet said
    for ((rank = 0; rank < $1; rank++)); do
        WEIR_RANK=$rank WEIR_RANKS=$1 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 $limit "${@:2}" &>said$rank &
        jobs+=($!)
    done
    for rank in "${!jobs[@]}"; do
        wait ${jobs[$rank]} || code=$?
        [ $code = 0 ] || [ -e said ] || mv said$rank said
    done
    [ -e said ] || mv said0 said
    return $code
}

# Devices for threads: a queue each in one process, or a GPU each.
several() {  # PROCESSES KIND
    local i
    for ((i = 0; i < $1; i++)); do
        [ "$gpu" ] && echo -n ",$gpu:$((i % gpus))${2:+,$2}" || echo -n ",cpu:${2:+$2,}queued"
    done
}
own_device() {  # KIND
    [ "$gpu" ] && echo $gpu:0${1:+,$1} || echo cpu:${1:+$1,}queued
}

verify() {  # SCHEDULE RANKS FEATURE PROCESSES KIND OPTIONS..
    local queues kind=$5 what=(weir verify plan.json --steps 2 "${@:6}")
    queues=$(several $4 $kind)
    timeout -k 5 $limit "${what[@]}" --device $(device $kind) &>said
    count $? $1 $2 $3 threads
    timeout -k 5 $limit "${what[@]}" --device ${queues#,} &>said
    count $? $1 $2 $3 queues
    together $4 "${what[@]}" --device $(own_device $kind)
    count $? $1 $2 $3 processes
    [ ! "$gpu" ] && [ -e "$build/lib/weir-mpi.so" ] && command -v mpirun >/dev/null || return
    timeout -k 5 $limit mpirun -n $4 "${what[@]}" --device cpu:${kind:+$kind,}queued,mpi &>said
    count $? $1 $2 $3 mpi
}

# Replicas of p stages, "2,1,3": one for all except the first and the last.
replicas_of() {  # STAGES FIRST LAST
    [ $1 = 1 ] && { echo $2; return; }
    echo "$2$(for ((s = 2; s < $1; s++)); do printf ,1; done),$3"
}

# The number of stages that a schedule has on so many ranks; the number of ranks if it cannot be generated.
stages_of() {  # SCHEDULE RANKS
    weir schedule $1 --ranks $2 --micro-batches $((4 * $2)) --format json 2>/dev/null |
        awk -F'[:,]' -v stages=$2 '/"stages"/ { stages = int($2); exit } END { print stages }'
}

combination() {  # SCHEDULE RANKS FEATURE PROFILE MICRO-BATCHES FIRST LAST OPTIONS..
    local schedule=$1 p=$2 feature=$3 profile=whole/$4 devices=$2 stages=$2 processes kind= given is_verify=
    local search=(partition 1GiB) options=() verifies=()
    [ $schedule = seq1f1b ] && profile=parts/$4
    if [ $6 = 1 ] && [ $7 = 1 ]; then
        stages=$(stages_of $schedule $p)
    else
        options=(--replicas $(replicas_of $p $6 $7))
        devices=$(($(tr , + <<<"${options[1]}")))
    fi
    processes=$devices
    case $4 in fp16 | bf16) kind=$4 ;; esac
    for given in "${@:8}"; do
        case $given in
        /) is_verify=1 ;;
        --tight) search=(tight) ;;
        --tensor | --rows)
            options+=(--variants $(replicas_of $stages 1 1 | sed "s/1/$([ $given = --rows ] && echo tensor2sp || echo tensor2)/g")
                      --ranks $devices)
            processes=$((2 * devices)) ;;
        *p*[-+]*) verifies+=($(($given))) ;;
        *) [ $is_verify ] && verifies+=($given) || options+=($given) ;;
        esac
    done
    "${search[@]}" $processes $profile $schedule $(($5)) "${options[@]}" ||
        { count $? $schedule $p $feature planning; return; }
    verify $schedule $p $feature $processes "$kind" "${verifies[@]}"
}

for schedule in $schedules; do
    for ranks in 1 2 3 4 5 6; do
        while read -r feature profile micro_batches head tail options; do
            number=$((number + 1))
            [ $(((number + every - first) % every)) = 0 ] || continue
            p=$ranks
            combination $schedule $ranks $feature $profile $micro_batches $head $tail $options </dev/null
        done < <(features)
    done
done
echo "$equal equal, $refused refused, $failed failed"
[ $failed = 0 ]
