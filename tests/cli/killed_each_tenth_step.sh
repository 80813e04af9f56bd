# Killed at every tenth step, and each time gone on with, a run has the bits of one that nobody ended: by each schedule, on
# threads and on processes; by the same plan, and after each kill by another one, of another schedule with other cuts for
# other ranks. Each checkpoint that is gone on from, and the last one, is held against that of a run by the same plan from
# the same beginning. (That another plan finds all that was kept is tests/trainer/test_resume.c's.) WEIR_SOAK=1 tries all
# of them over 100 steps, and says from which checkpoints each has gone on.
model="gpt-nano,width=64,blocks=4,heads=2,sequence=64,micro_batch=2"
schedules=(gpipe 1f1b zb-v pipedream pipedream-2bw)
cells=('1f1b processes same' 'zb-v threads another' 'pipedream-2bw processes another') steps=30
if [ "${WEIR_SOAK:-}" ]; then
    mapfile -t cells < <(for one in "${schedules[@]}"; do printf '%s\n' "$one "{threads,processes}' '{same,another}; done)
    steps=100
fi

weir profile "$model" -o profile.json >/dev/null
declare -A other
for i in "${!schedules[@]}"; do
    other[${schedules[i]}]=${schedules[(i + 1) % ${#schedules[@]}]}
    for count in 2 3; do
        weir partition profile.json --cluster "$count devices, 1GiB, 10GB/s 1us" --schedule ${schedules[i]} --micro-batches 6 \
            -o ${schedules[i]}-$count.json >/dev/null || exit 1
    done
done
mkfifo told

start() {  # PLAN FOLDER ARGUMENTS..: with the engine; its processes are in `ranks`, and `told` has what it prints
    local plan=$1 kept=$2 count=1 device=cpu rank place=()
    shift 2
    ranks=() meetings=$((${meetings:-0} + 1))
    [ $engine = threads ] || count=${plan##*-} device=cpu:queued
    for ((rank = 0; rank < count; rank++)); do
        [ $engine = threads ] ||
            place=(WEIR_RANK=$rank WEIR_RANKS=$count "WEIR_RENDEZVOUS=$PWD/meet-$meetings")
        env "${place[@]}" weir train "$model" --data /usr/share/common-licenses --plan $plan.json --steps $steps --every 10 \
            --device $device --flush-every 3 --checkpoints $kept --save-every 3 "$@" >told 2>err.$rank &
        ranks+=($!)
    done
}
await_step() {  # STEP: until it is told; not where the run ends before
    local word step
    while read -r word step _; do
        [ "$word" != step ] || [ "$step" != $1 ] || return 0
    done
    return 1
}
await_end() {  # what each of its processes ended with
    local process
    codes=
    for process in "${ranks[@]}"; do
        wait $process 2>/dev/null
        codes+=" $?"
    done
}
newest() { (echo 0; ls $1) | sed -n 's/^\(step-\)\?\([0-9]*\)$/\2/p' | sort -n | tail -1; }
wrong() { echo "$cell: $*"; grep -h . err.*; exit 1; }
whole() {  # PLAN FOLDER ARGUMENTS..: to its end, with all its checkpoints
    start "$@" --keep 1000
    cat told >/dev/null
    await_end
    [ -z "${codes//[ 0]/}" ] || wrong "the run that nobody ends has exit codes$codes"
}

for cell in "${cells[@]}"; do
    read -r schedule engine which <<<"$cell"
    plans=($schedule-2 $schedule-2) from=
    [ $which = same ] || plans[1]=${other[$schedule]}-3
    rm -rf killed whole
    whole $plans whole
    start $plans killed
    for ((goal = 10, kills = 0; goal < steps; goal += 10)); do
        exec 3<told
        await_step $goal <&3 || wrong "ended before step $goal"
        kill -9 ${ranks[kills % ${#ranks[@]}]} || wrong "had ended when it was to be killed at step $goal"
        await_end
        exec 3<&-
        expected=$(for rank in "${!ranks[@]}"; do printf ' %s' $((rank == kills % ${#ranks[@]} ? 137 : 3)); done)
        [ "$codes" = "$expected" ] || wrong "killed at step $goal, its processes end with$codes, not$expected"
        step=$(newest killed) kills=$((kills + 1)) from+=" $step"
        [ $step = 0 ] || diff -r whole/step-$step killed/step-$step ||
            wrong "step-$step, left by the kill at step $goal, has other bits"
        if [ $which = another ]; then
            rm -r whole
            mkdir whole
            [ $step = 0 ] || cp -r killed/step-$step whole
            whole ${plans[kills % 2]} whole --resume
        fi
        start ${plans[kills % 2]} killed --resume
    done
    cat told >/dev/null
    await_end
    [ -z "${codes//[ 0]/}" ] || wrong "after $kills kills it ends with$codes"
    step=$(newest whole)
    [ $step -ge $steps ] && diff -r whole/step-$step killed/step-$step || wrong "at its end, step $step, it has other bits"
    [ "$(find killed -name '*.tmp')" = '' ] || wrong "$(find killed -name '*.tmp') is left"
    echo "$cell: $kills kills, gone on from$from: the bits of step $step, $(ls killed/step-$step/*.safetensors | wc -l) files"
done
