# `weir simulate` takes a plan as well: its stages' costs, its cluster's links.
exec 2>&1
awk '/^```json$/ { on = 1; next } /^```$/ { on = 0 } on' "$ROOT/docs/formats/plan.md" > plan.json
weir simulate plan.json
weir simulate plan.json --micro-batches 16 --json | head -12
predicted=$(sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p' plan.json | head -1)
simulated=$(weir simulate plan.json --json | sed -n 's/.*"iteration_ns": \([0-9]*\).*/\1/p')
[ "$predicted" = "$simulated" ] && echo "as the plan predicts" || echo "$predicted predicted, $simulated simulated"
weir simulate plan.json --cost 1us,1us,1us,0ns; echo "exit $?"
weir check plan.json
sed 's/"version": 1/"version": 99/' plan.json > newer.json; weir simulate newer.json; echo "exit $?"
