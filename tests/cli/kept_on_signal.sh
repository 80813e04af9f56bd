# SIGUSR1, which Slurm sends before a job's time is over: a checkpoint is made and the run goes on, whichever of its
# processes was sent it. Without a folder for one that is said, and the run goes on. What is kept so is gone on with.
exec 2>&1
model=gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2
weir profile $model -o profile.json >/dev/null 2>&1
weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 -o plan.json \
    >/dev/null 2>&1
until_says() {  # DESCRIPTOR PATTERN: reads what a process says, until a line has that
    local line
    while read -r -t 300 -u $1 line; do
        [[ $line =~ $2 ]] && return
    done
    echo "nobody says: $2"
}
# Its first line and what it says at once are all that it prints, so that it never waits for somebody to read.
mkfifo told0 told1
begin() {  # RANK ARGUMENTS..: pids[RANK], which says what it says at descriptor 7 or 8
    (exec weir train $model --data /usr/share/common-licenses --plan plan.json --steps 1000000 --every 1000000 \
        "${@:2}") >told$1 2>&1 &
    pids[$1]=$!
    if [ $1 = 0 ]; then exec 7<told0; else exec 8<told1; fi
}
steps() { ls "$1" | grep -c '^step-[0-9]*$'; }
end() { kill -TERM $1; wait $1; echo "exit $?"; }

echo "# one process, asked twice"
begin 0 --checkpoints one --keep 9 --log one.jsonl
until_says 7 '^step +1 of'
kill -USR1 ${pids[0]}
until_says 7 'step [0-9]+ is kept'
steps one
kill -USR1 ${pids[0]}
until_says 7 'step [0-9]+ is kept'
steps one
end ${pids[0]}
steps one
grep -c '"event": "kept"' one.jsonl
grep -o '"how": .*' one.jsonl
last=$(ls one | sed -n 's/^step-//p' | sort -n | tail -n 1)
weir train $model --data /usr/share/common-licenses --plan plan.json --steps $((last + 3)) --checkpoints one --resume \
    --log one.jsonl 2>&1 | grep -c '^step'

echo "# one rank of two, the one that says nothing"
WEIR_RANK=0 WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet begin 0 --device cpu:queued --checkpoints two
WEIR_RANK=1 WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet begin 1 --device cpu:queued --checkpoints two
until_says 7 '^step +1 of'
kill -USR1 ${pids[1]}
until_says 7 'step [0-9]+ is kept'
steps two
kill -TERM ${pids[0]}
for rank in 0 1; do wait ${pids[rank]}; echo "exit $?"; done

echo "# without a folder"
begin 0
until_says 7 '^step +1 of'
kill -USR1 ${pids[0]}
until_says 7 'SIGUSR1 asks for a checkpoint, and there is no folder for it: --checkpoints FOLDER keeps'
end ${pids[0]}

echo "# a member of an elastic run, whose rank is another process"
begin 0 --device cpu:queued --checkpoints elastic --save-every 1000000 --elastic profile.json
until_says 7 '^step +1 of'
kill -USR1 ${pids[0]}
until_says 7 'step [0-9]+ is kept'
steps elastic
end ${pids[0]}
