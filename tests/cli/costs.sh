# What a schedule costs: without units, from a document, a schedule or a plan; `weir simulate` says in which terms.
exec 2>&1
try() { "$@" > out; code=$?; head -5 out; echo "exit $code"; }
weir schedule 1f1b --ranks 2 --micro-batches 3 --format csv --lf -o 1f1b.csv
weir simulate 1f1b.csv --cost 1,0.5,0.75,0 --format text | head -8
example() { awk '/^```json$/ { on = 1; next } /^```$/ { on = 0 } on' "$ROOT/docs/formats/$1.md"; }
example costs > costs.json; example schedule > own.json; example plan > plan.json
weir simulate 1f1b.csv --cost 1,0.5,0.75,0 --json | grep -v "rank"
try weir simulate 1f1b.csv --cost costs.json
try weir simulate 1f1b.csv --cost own.json --keep 1KiB,0B
try weir simulate 1f1b.csv --cost plan.json
weir schedule 1f1b --ranks 3 --micro-batches 3 --format csv -o three.csv
try weir simulate three.csv --cost costs.json
weir schedule search --ranks 3 --micro-batches 4 --cost 3,4,2,0.5 | sed -n 2,3p
try weir simulate 1f1b.csv --cost nowhere.json
try weir simulate 1f1b.csv --cost costs.json --overlapped 3ms
try weir simulate 1f1b.csv --overlapped 3ms
try weir simulate 1f1b.csv --cost 1us,1us,1us,0ns --keep 1
