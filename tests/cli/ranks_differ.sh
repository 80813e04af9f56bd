# Ranks that were started with something else than rank 0: all of them end before they begin, and say what differs.
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
for m in 4 8; do
    weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches $m -o plan$m.json >/dev/null
done
seq 20000 > data.txt
seq 20001 > more.txt
cp data.txt same.txt

rank() {  # RANK OPTIONS OF WEIR TRAIN..
    local rank=$1
    shift
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir train "$model" --steps 2 --data data.txt \
        --plan plan8.json --device cpu:queued "$@" >rank$rank.txt 2>&1
}
differ() {  # what rank 1 has besides
    local code0=0 code1=0
    rank 0 &
    rank 1 "$@" || code1=$?
    wait $! || code0=$?
    echo "$*: exit $code0 and $code1"
    cmp -s rank0.txt rank1.txt && sed 's/[0-9a-f]\{16,\}/HASH/g' rank0.txt
}
differ --rate 0.01
rank 0 &
WEIR_RANK=1 WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet timeout -k 5 300 weir verify plan8.json --steps 2 --device cpu:queued
wait $!
cat rank0.txt
differ --flush-every 3
differ --data more.txt
differ --seed 2
differ --steps 3
differ --plan plan4.json
differ --device cpu:queued,bf16
differ --data same.txt | head -1
