# Two machines, played by namespaces of this one (network, name, mounts) with a link of a gigabit between them, whose
# first megabyte passes at once: mpirun and a file of hosts are all that a run takes. Nothing of it is seen outside, or
# outlives it.
case $WEIR_BUILD in *asan* | *tsan*)
    echo '# skip: MPI itself leaks and races in the eyes of the sanitizers'
    exit 77 ;;
esac
if [ ! -e "$WEIR_BUILD/lib/weir-mpi.so" ] || ! mpirun --version 2>&1 | grep -q 'Open MPI'; then
    echo '# skip: weir-mpi.so is not built here (scons mpi=yes says what it lacks), or mpirun is not that of Open MPI'
    exit 77
fi
if ! command -v tc >/dev/null || ! unshare --net --uts --mount true 2>/dev/null; then
    echo '# skip: no rights to make network namespaces (root has them), or no tc'
    exit 77
fi
unset WEIR_PLUGINS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=$PWD/agent

within() {  # MACHINE COMMAND..
    nsenter --target "$(cat "$1.pid")" --net --uts --mount --wd="$PWD" "${@:2}"
}
trap 'kill $(cat *.pid)' EXIT
printf '127.0.0.1 localhost\n10.77.0.1 left\n10.77.0.2 right\n' >hosts
for machine in left right; do
    unshare --net --uts --mount sleep 600 </dev/null >/dev/null 2>&1 &
    echo $! >$machine.pid
done
sleep 0.5
ip link add left netns "$(cat left.pid)" type veth peer name right netns "$(cat right.pid)" 2>err.txt || {
    echo '# skip: this kernel joins no network namespaces (veth)'
    exit 77
}
address=1
for machine in left right; do
    within $machine hostname $machine
    within $machine mount --bind hosts /etc/hosts
    within $machine ip link set lo up
    within $machine ip address add 10.77.0.$address/24 dev $machine
    within $machine ip link set $machine up
    within $machine tc qdisc add dev $machine root tbf rate 1gbit burst 1mb latency 50ms
    echo "$machine slots=1" >>hostfile
    address=2
done
cat >agent <<'AGENT'
#!/bin/sh
# How mpirun starts something on another machine: HOST COMMAND..
machine=$(cat "${0%/*}/$1.pid")
shift
exec nsenter --target "$machine" --net --uts --mount sh -c "$*"
AGENT
chmod +x agent

on_both() {
    within left timeout -k 5 100 mpirun -n 2 --hostfile hostfile -x PATH -x WEIR_LIBEXEC --wdir "$PWD" "$@" \
        >out.txt 2>err.txt
    echo "exit $?"
}
on_both weir profile --links --memory 1GiB -o cluster.json
awk -F'[:,}]' '/bytes_per_second/ { print ($6 + 0 > 0 && $6 + 0 < 125e6 ? "the rate is the gigabit at most" : $0) }' \
    cluster.json
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null 2>&1
weir partition profile.json --cluster cluster.json --schedule 1f1b --micro-batches 8 -o plan.json >/dev/null 2>&1
on_both weir verify plan.json
tail -n 1 out.txt
sed -n 's/Open MPI [0-9.]*:/Open MPI:/; /^messages by/p' err.txt
on_both weir train "$model" --plan plan.json --data /usr/share/common-licenses --steps 3
grep -c '^step' out.txt
awk '/peak bytes/ && $5 != $6 { print "peak differs: " $0; bad = 1 } /peak bytes/ { n++ }
     END { print n - bad " peaks agree" }' out.txt
