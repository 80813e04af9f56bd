# `weir check` proves that a schedule can run, or names rank, position and reason.
exec 2>&1
check() { weir check "$@"; echo "exit $?"; }
for name in gpipe 1f1b pipedream; do
    weir schedule $name --ranks 4 --micro-batches 6 --format json | check -
done
weir schedule 1f1b --ranks 2 --micro-batches 2 --format json > good.json
check good.json --json
sed 's/0F0 0F1 0B0/0F0 0B0 0F1/; s/1F0 1B0 1F1 1B1/1F1 1B1 1F0 1B0/' good.json > cycle.json; check cycle.json
check cycle.json --sends eager:3
sed 's/0B0 0B1 0STEP/0B0 0STEP/' good.json > missing.json; check missing.json
sed 's/0F0 0F1/0F0 0F7/' good.json > range.json; check range.json --json
# Rank 0 sends twice before it receives; rank 1 answers at once: the deadlock of two fixed orders.
sed 's/"stages": 2/"stages": 3/; s/\[0, 1\]/[0, 1, 0]/
    s/"0F0 .*STEP",/"0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2B0 2SEND_B0 2RECV_F1 2F1 2B1 2SEND_B1 0RECV_B0 0B0 0RECV_B1 0B1",/
    s/"1F0 .*STEP"/"1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1"/' good.json > late.json
check late.json
check late.json --sends eager:1
check late.json --sends eager
weir check 2>&1 | head -1
# Receives right before their use: 1F1B then needs a buffer. The order within a lowered file is taken.
for name in gpipe 1f1b; do
    weir schedule $name --ranks 4 --micro-batches 6 --format json > order.json
    check order.json --lower all
    check order.json --lower late
done
check order.json --lower late --sends eager:1 --channels shared
check order.json --lower late --sends eager:1 --json
check late.json --lower all
check order.json --lower all --json
check order.json --lower never
check order.json --channels one
# Bytes within a limit at every moment; a schedule without costs cannot be weighed.
check good.json --cost 10us,12us,8us,1us --keep 10GiB,1GiB --memory 15GiB
check good.json --cost 10us,12us,8us,1us --keep 10GiB,1GiB --memory 25GiB
check good.json --memory 25GiB
# Messages that stand in a row as one group: enough for 1F1B with late receives, not for interleaved stages.
check order.json --lower late --sends grouped
weir schedule interleaved --ranks 4 --chunks 2 --micro-batches 8 --format json > interleaved.json
check interleaved.json --lower late --sends grouped
check interleaved.json --lower late
