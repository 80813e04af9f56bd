# Where results go: whole or not at all, and nothing is left beside them. (common/output.h says more.)
model=gpt-nano,width=32,blocks=1,heads=2,sequence=32
weir profile $model -o profile.json > /dev/null
cluster='--cluster "2 devices, 1GiB, 10GB/s 20us" --micro-batches 4'
eval "weir partition profile.json $cluster --schedule 1f1b -o plan.json" > /dev/null
weir schedule 1f1b --ranks 2 --micro-batches 4 --format json -o schedule.json
echo 'node0 -- Input -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=3.0,' \
     'parameter_size=4.000' > graph.txt
clicks=dlrm,numbers=2,slots=2,rows=9,columns=2,bottom=3,top=3,micro_batch=8
weir data make-clicks --samples 60 --slots 2 --numbers 2 --ids 9 -o clicks.json > /dev/null
weir profile $clicks --data clicks.json --batches 4 -o clicks.profile > /dev/null 2>&1
eval "weir partition clicks.profile $cluster --schedule 1f1b --optimizer adagrad -o clicks.plan" > /dev/null 2>&1
weir train $clicks --plan clicks.plan --data clicks.json --steps 1 --checkpoints kept > /dev/null 2>&1
mkdir out && cd out

# Every command that writes a file, each into "file".
commands=(
    "weir model $model --json -o file"
    "weir profile $model -o file"
    "weir import pipedream ../graph.txt -o file"
    "weir partition ../profile.json $cluster --schedule 1f1b -o file"
    "weir price ../profile.json --plan ../plan.json -o file"
    "weir keep ../profile.json --plan ../plan.json -o file"
    "weir front ../profile.json $cluster --schedule 1f1b -o file"
    "weir front ../profile.json $cluster --schedule 1f1b --svg file"
    "weir bottleneck ../profile.json $cluster --model max-load -o file"
    "weir explain ../plan.json --profile ../profile.json -o file"
    "weir place ../clicks.profile --cluster '2 devices, 1GiB, 10GB/s 20us' --micro-batches 2 --seconds 0 -o file"
    "weir score ../clicks.plan --weights ../kept --data ../clicks.json -o file"
    "weir sweep ../profile.json $cluster --schedules 1f1b -o file"
    "weir sweep ../profile.json $cluster --schedules 1f1b --plan file"
    "weir schedule ../schedule.json -o file"
    "weir schedule search --ranks 2 --micro-batches 4 --cost 1us,1us,1us,1us -o file"
    "weir check ../schedule.json -o file"
    "weir simulate ../plan.json -o file"
    "weir simulate ../plan.json --format html -o file"
)

echo "# each writes its file, keeps who may read it, and leaves nothing else"
for command in "${commands[@]}"; do
    printf 'of before\n' > file && chmod 640 file
    eval "$command" > ../said 2>&1 || { echo "$command:"; cat ../said; }
    [ "$(stat -c %a file)" = 640 ] || echo "$command: $(stat -c %a file)"
    [ "$(ls -A)" = file ] || echo "$command: $(ls -A)"
    ! grep -q 'of before' file || echo "$command: wrote nothing"
done

echo "# a disk that takes no more: the old file stays"
for command in "${commands[@]}"; do
    printf 'of before\n' > file
    (trap '' XFSZ; ulimit -f 0; eval "$command" 2>&1 > /dev/null) | cat > ../said
    grep -qx 'weir: file: cannot be written: File too large' ../said || { echo "$command:"; cat ../said; }
    [ "$(ls -A; cat file)" = "file"$'\n'"of before" ] || { echo "$command:"; ls -A; cat file; }
done
(trap '' XFSZ; ulimit -f 0; weir simulate ../plan.json -o file 2> /dev/null); echo "exit $?"

echo "# ended at any moment"
for signal in INT TERM; do
    for trial in {1..8}; do
        printf 'of before\n' > file
        env --default-signal=INT weir simulate ../plan.json --format html -o file & child=$!
        sleep 0.$(printf %03d $((trial * 5)))
        kill -$signal $child 2> /dev/null
        wait $child 2> /dev/null
        [ "$(ls -A)" = file ] || ls -A
        [ "$(cat file)" = "of before" ] || tail -1 file | grep -q '</html>' || echo "half a file"
    done
done

echo "# pipes, devices and what the shell has opened are written to"
weir simulate ../plan.json -o /dev/null; [ -c /dev/null ] && echo "a device"
echo before > log; weir schedule ../schedule.json --format csv -o /dev/stdout >> log; head -1 log; grep -c F0 log
weir schedule ../schedule.json --format json -o >(head -2) | cat
mkfifo pipe; weir check ../schedule.json -o pipe & head -c 14 pipe; echo; wait

echo "# links"
mkdir there; ln -s there/file latest; weir check ../schedule.json -o latest 2>&1; echo "exit $?"
echo old > there/file; weir check ../schedule.json -o latest; ls -F; head -c 14 there/file; echo
