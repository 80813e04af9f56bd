# What `weir simulate`, `check` and `schedule` cannot read or do is said in one sentence; exit code 2, or 1 for a
# schedule that cannot run.
exec 2>&1
try() { "$@" > out; code=$?; cat out; echo "exit $code"; }
weir schedule 1f1b --ranks 2 --micro-batches 2 --format json > good.json
try weir simulate good.json
try weir simulate good.json --cost 1us,2us
try weir simulate good.json --cost 1us,2us,3,4us
try weir simulate good.json --cost 1us,2us,3us,4us,5us
try weir simulate good.json --cost 1us,1us,1us,0ns --keep 1
try weir simulate good.json --cost 1us,1us,1us,0ns --cluster "1 device, 1GiB, 1GB/s 1us"
try weir simulate good.json --format png
try weir simulate good.json good.json
try weir simulate good.json --micro-batches 3
try weir simulate nowhere.json
try weir simulate .
sed 's/1F0 1B0/1B0 1F0/' good.json > order.json; try weir simulate order.json --cost 1us,1us,1us,0ns
sed 's/1F0 1B0/1F0junk 1B0/' good.json > junk.json; try weir simulate junk.json
head -c 200 good.json > truncated.json; try weir check truncated.json
sed 's/"micro_batches": 2/"micro_batches": NaN/' good.json > nan.json; try weir check nan.json
sed 's/"ranks": 2/"ranks": 2, "ranks": 2/' good.json > twice.json; try weir check twice.json
sed 's/"ranks": 2/"ranks": -2/' good.json > negative.json; try weir check negative.json
sed 's/"ranks": 2/"ranks": 3/' good.json > lists.json; try weir check lists.json
sed 's/"name"/"nom"/' good.json > unknown.json; try weir check unknown.json
awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "[" }' > deep.json; try weir check deep.json
: > empty.json; try weir check empty.json
try weir check .
try weir check good.json --sends eager:-1
try weir schedule gpipe --ranks 4 --chunks 2 --micro-batches 8
weir schedule 1f1b --ranks 2 --micro-batches 2 --format csv -o good.csv 2>/dev/null
try weir simulate good.json --cost good.csv
try weir simulate good.json --cost 1,1,1,0 --unit-steps
try weir simulate ''
echo '{}' | try weir check -
try weir schedule nope
try weir schedule search --ranks 2
