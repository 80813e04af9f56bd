# `weir simulate --one-lane`, `--no-overlap`, `--noise`: what messages cost that hold their rank up, and what noise does.
exec 2>&1
simulate() { weir simulate "$@" --cost 10us,12us,8us,1us; echo "exit $?"; }
weir schedule interleaved --ranks 2 --chunks 2 --micro-batches 4 --format json > order.json
simulate order.json --one-lane --ascii
simulate order.json --no-overlap | sed -n 5p
simulate order.json --one-lane --lower late
simulate order.json --one-lane --lower late --sends eager:1 | sed -n 5p
simulate order.json --noise 5% | sed -n 5p
simulate order.json --noise 5% --seed 2 --trials 10 --one-lane --json | sed -n '/"lanes"/,$p'
simulate order.json --one-lane --format svg | head -1
simulate order.json --lower late
simulate order.json --one-lane --lower all
simulate order.json --one-lane --no-overlap
simulate order.json --noise 5
simulate order.json --noise 26%
simulate order.json --trials 10
# Receives when their message is made: a lane costs nothing, nobody needs a buffer, and PyTorch can read it.
weir schedule order.json --cost 10us,12us,8us,1us --lower timed --format csv --lf -o timed.csv
head -1 timed.csv
weir check timed.csv --channels shared
simulate timed.csv --one-lane | sed -n 5p
simulate order.json --one-lane --lower timed | sed -n 5p
weir check order.json --cost 10us,12us,8us,1us --lower all
weir schedule order.json --lower timed; echo "exit $?"
weir schedule order.json --lower late | head -1
weir schedule order.json --lower all; echo "exit $?"
weir schedule 1f1b --ranks 2 --micro-batches 2 --cost 1us,1us,1us,0ns; echo "exit $?"
# Messages that stand in a row as one group.
weir schedule 1f1b --ranks 4 --micro-batches 8 --format json -o 1f1b.json
for where in early late timed; do simulate 1f1b.json --one-lane --sends grouped --lower $where | sed -n 5p; done
