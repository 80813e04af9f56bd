# `weir profile --lint` reads a profile strictly and says what looks wrong; exit
# code 1 when a finding makes it untrusted.
exec 2>&1
awk '/^```json$/ { on = 1; next } /^```$/ { on = 0 } on' "$ROOT/docs/formats/profile.md" > good.json
lint() { weir profile --lint "$1"; echo "exit $?"; }
lint good.json
sed 's/"whole_ns": 93500/"whole_ns": 120000/' good.json > apart.json; lint apart.json
sed 's/measured"$/assumed"/; s/"repeats": 20/"repeats": 3/' good.json > guess.json; lint guess.json
sed 's/"flops": 0/"flops": 0, "flops": 0/' good.json > twice.json; lint twice.json
sed 's/"model"/model/' good.json > unquoted.json; lint unquoted.json
head -c 1000 good.json > truncated.json; lint truncated.json
sed 's/"forward_ns": 2000/"forward_ns": NaN/' good.json > nan.json; lint nan.json
sed 's/"forward_ns": 2000/"forward_ns": -5/' good.json > negative.json; lint negative.json
sed 's/\[1, 2\]/[2, 1]/' good.json > cycle.json; lint cycle.json
awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "[" }' > deep.json; lint deep.json
: > empty.json; lint empty.json
lint .
