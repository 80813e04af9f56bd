# Tables placed on devices, with a bound; what is asked wrongly is refused.
if [ ! -x "$WEIR_LIBEXEC/weir-glpk" ]; then
    echo '# skip: weir-glpk is not built here (libglpk-dev)'
    exit 77
fi
sed -n '/^```json$/,/^```$/p' "$ROOT/docs/formats/tables.md" | sed '1d;$d' > tables.json
four='4 devices, 1GiB, 12GB/s 5us'
weir place tables.json --cluster "$four" --optimizer adagrad; echo "exit $?"

echo "# as a document, twice the same"
weir place tables.json --cluster "$four" --json -o once.json
weir place tables.json --cluster "$four" --json -o twice.json
cmp once.json twice.json && grep -c '"way"' once.json

echo "# less memory splits tables, and a number a row forbids columns"
weir place tables.json --cluster "$four" --memory 180MiB --optimizer adagrad-rows --seconds 0 | sed -n '2,5p;/takes/p'

echo "# what the members have no room for is on the host"
weir place tables.json --cluster '2 nodes x 2 devices, 100MiB, 12GB/s 5us, 1GB/s 20us, host 1GiB 10GB/s' --seconds 0 |
    sed -n '2,5p;/slowest/p'

echo "# without GLPK the bound is that of sums"
mkdir none
printf '#!/bin/sh\nexit 1\n' > none/weir-glpk
chmod +x none/weir-glpk
WEIR_LIBEXEC=$PWD/none weir place tables.json --cluster "$four" | grep -E 'takes? less|take '

echo "# refused"
weir place tables.json --cluster '4 devices, 40MiB, 12GB/s 5us' 2>&1; echo "exit $?"
weir place tables.json 2>&1; echo "exit $?"
weir place tables.json --cluster "$four" --optimizer adam 2>&1; echo "exit $?"
sed 's/"unique": 24}/"unique": 25}/' tables.json > wrong.json
weir place wrong.json --cluster "$four" 2>&1; echo "exit $?"
weir place tables.json --cluster "$four" --memory 20MiB 2>&1; echo "exit $?"
