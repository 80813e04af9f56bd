# Two machines with a link of a gigabit between them, whose first megabyte passes at once: mpirun and a file of hosts are
# all that a run takes.
case $WEIR_BUILD in *asan* | *tsan*)
    echo '# skip: MPI itself leaks and races in the eyes of the sanitizers'
    exit 77 ;;
esac
if [ ! -e "$WEIR_BUILD/lib/weir-mpi.so" ] || ! mpirun --version 2>&1 | grep -q 'Open MPI'; then
    echo '# skip: weir-mpi.so is not built here (scons mpi=yes says what it lacks), or mpirun is not that of Open MPI'
    exit 77
fi
unset WEIR_PLUGINS
. "$ROOT/tools/two-machines"
if ! machines_start; then
    echo "# skip: $machines_lack"
    exit 77
fi
machines_rate 1gbit 1mb

both() {
    on_both "$@" >out.txt 2>err.txt
    echo "exit $?"
}
both weir profile --links --memory 1GiB -o cluster.json
awk -F'[:,}]' '/bytes_per_second/ { print ($6 + 0 > 0 && $6 + 0 < 125e6 ? "the rate is the gigabit at most" : $0) }' \
    cluster.json
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null 2>&1
weir partition profile.json --cluster cluster.json --schedule 1f1b --micro-batches 8 -o plan.json >/dev/null 2>&1
both weir verify plan.json
tail -n 1 out.txt
sed -n 's/Open MPI [0-9.]*:/Open MPI:/; /^messages by/p' err.txt
both weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 3
grep -c '^step' out.txt
awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ }
     END { print n - bad " peaks agree" }' out.txt
