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
simulate order.json --one-lane --lower both
simulate order.json --one-lane --no-overlap
simulate order.json --noise 5
simulate order.json --noise 26%
simulate order.json --trials 10
