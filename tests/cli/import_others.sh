# `weir import dnn-partitioning` and `piper` make a profile and the machine it is for of
# the examples of their pages.
exec 2>&1
example() { sed -n '/^```json$/,/^```$/p' "$ROOT/docs/formats/$1.md" | grep -v '^```'; }
for format in dnn-partitioning piper; do
    example "$format" > tiny.json
    weir import "$format" tiny.json -o profile.json --cluster-output cluster.json; echo "exit $?"
    weir import "$format" tiny.json | cmp - profile.json
    cat cluster.json
    weir profile --lint profile.json | tail -1
    tr -d '}' < tiny.json | weir import "$format" -; echo "exit $?"
done

echo "# two documents have two places"
for output in '' '-o -'; do weir import piper tiny.json --cluster-output - $output 2>&1 | head -1; done
weir import piper tiny.json --micro-batch 0 2>&1 | head -1
weir import piper tiny.json -o profile.json --cluster-output - | cmp - cluster.json
