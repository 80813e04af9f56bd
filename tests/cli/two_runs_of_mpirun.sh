# Two runs of mpirun on one machine at a time, where no weir-mpi.so tells them where they meet: each has its own ranks,
# and what one is asked to do the other does not.
case $WEIR_BUILD in *asan* | *tsan*)
    echo '# skip: a sanitizer makes so many processes slow to start'
    exit 77 ;;
esac
launchers=$(for name in mpirun.openmpi mpirun.mpich; do command -v $name; done)
[ "$launchers" ] || launchers=$(command -v mpirun)
if [ ! "$launchers" ]; then
    echo '# skip: there is no mpirun'
    exit 77
fi
export WEIR_PLUGINS=none
model="gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 -o plan.json >/dev/null
set -- weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 12 --every 12
for run in 1 2; do
    "$@" --seed $run >alone$run.txt
done
for launcher in $launchers; do
    for run in 1 2; do
        timeout -k 5 300 $launcher -n 2 "$@" --seed $run >run$run.txt 2>&1 &
        pids[$run]=$!
    done
    for run in 1 2; do
        wait ${pids[$run]} || echo "$launcher: exit $?"
        cmp <(grep '^held-out' alone$run.txt) <(grep '^held-out' run$run.txt) || cat run$run.txt
    done
done
echo "each has computed what it computes alone"
