# Ranks on cpu:queued share memory. It takes no room of /dev/shm, which in a container is small; what is killed at any
# moment of its start leaves nothing behind; and where there is no memory, that is said.
if [ ! "${IN_OWN_NAMESPACE-}" ]; then
    if ! unshare -rm true 2>/dev/null; then
        echo '# skip: a /dev/shm of its own needs user and mount namespaces, which are not allowed here'
        exit 77
    fi
    IN_OWN_NAMESPACE=1 exec unshare -rm bash "$0"
fi
mount -t tmpfs -o size=16k tmpfs /dev/shm
mkdir tmp
export TMPDIR=$PWD/tmp

weir profile "gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2" -o profile.json >/dev/null
weir partition profile.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 8 -o plan.json >/dev/null

start() {  # COMMAND.., by three ranks
    local rank
    for rank in 0 1 2; do
        WEIR_RANK=$rank WEIR_RANKS=3 WEIR_RENDEZVOUS=$PWD/meet "$@" >rank$rank.txt 2>&1 &
    done
}
await() {
    local codes="" job
    for job in $(jobs -p); do
        wait $job
        codes="$codes $?"
    done
    echo "exit$codes"
}

# Killed in its first moments, which begin anew each time a little later.
(
    for ((trial = 0; trial < ${WEIR_SOAK:+10}40; trial++)); do
        start weir verify plan.json --device cpu:queued
        sleep 0.$(printf %03d $((trial * 3 % 150)))
        kill -9 $(jobs -p)
        wait
    done
) 2>/dev/null
echo "left behind: $(ls /dev/shm tmp | grep -v : | paste -sd ' ')"

# Full.
head -c 16k /dev/zero >/dev/shm/full
df --output=avail /dev/shm | tail -n 1
start timeout -k 5 300 weir verify plan.json --device cpu:queued
await
tail -n 1 rank0.txt

# No memory to be had, as far as a limit on files can play that.
start timeout -k 5 300 bash -c 'trap "" XFSZ; ulimit -f 32; weir verify plan.json --device cpu:queued 2>&1 | cat; exit ${PIPESTATUS[0]}'
await
sort -u rank?.txt
echo "left behind: $(ls /dev/shm tmp | grep -v : | paste -sd ' ')"
