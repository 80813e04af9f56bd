# PyTorch's CSV is written by `weir schedule` and taken by `weir check` and `weir simulate`.
exec 2>&1
try() { "$@" > out; code=$?; cat out; echo "exit $code"; }
weir schedule zb-h1 --ranks 3 --micro-batches 4 --format csv --lf -o zbh1.csv; cat zbh1.csv
weir schedule 1f1b --ranks 2 --micro-batches 2 --format csv --lowered --dialect torch2.6 | od -c | tail -3
weir check zbh1.csv
weir check - < zbh1.csv
weir simulate zbh1.csv --cost 3us,4us,2us,0ns --keep 100B,60B | head -8
weir simulate zbh1.csv | cat
printf '0F0,0UNSHARD,0WAIT_SEND_F0,0B0\r\n' > wait.csv; try weir check wait.csv
printf '0F0,0F1\n1F0,12FRECV_F3\n' > junk.csv; try weir check junk.csv
printf '0F0,0B0\n0F1,0B1\n' > copies.csv; try weir check copies.csv
try weir schedule pipedream --ranks 2 --micro-batches 2 --format csv
try weir schedule 1f1b --ranks 2 --micro-batches 2 --format csv --dialect torch2.4
weir simulate zbh1.csv --unit-steps
weir schedule 1f1b --ranks 2 --micro-batches 2 --format json | weir simulate - --unit-steps
# From a file in one form to another.
weir schedule 1f1b --ranks 2 --micro-batches 2 --format json | weir schedule - --format csv --lf
weir schedule zbh1.csv --format csv --lf | cmp - zbh1.csv && echo "the same"
weir schedule zbh1.csv --lowered --format json | sed -n 4,13p
try weir schedule zbh1.csv --ranks 3

echo "# a plan's schedule: the order in which its ranks compute, which PyTorch completes itself"
weir profile gpt-nano,width=32,blocks=2,heads=2,sequence=32 -o profile.json > /dev/null
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 20us' --schedule 1f1b --micro-batches 3 -o plan.json > /dev/null 2>&1
weir schedule plan.json --format csv --lf 2> /dev/null
weir schedule plan.json --format csv --lf --lowered 2> /dev/null
