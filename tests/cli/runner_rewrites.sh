# What the runner rewrites: the output of what is good, or is expected to fail, and not of what newly fails or hangs.
set -eu
mkdir -p tree/tools tree/tests/cli build
cp "$ROOT/tools/run-tests" "$ROOT/tools/running.py" tree/tools
cd tree/tests/cli
script() {  # NAME OUTPUT CODE EXPECTED-CODE
    echo "echo $2; exit $3" >"$1.sh"
    echo old >"$1.out"
    [ -z "${4-}" ] || echo "$4" >"$1.code"
}
script a_good new 0
script b_failing new 3
script c_expected new 3 3
script d_mended new 0 3
script e_otherwise new 4 3
echo 'sleep 1000' >f_hanging.sh
echo old >f_hanging.out
echo 'exit 1' >g_silent.sh  # without expected output
cd ../../..
tree/tools/run-tests --build build --only tests/cli --jobs 1 --limit 2 --rewrite |
    sed -E 's/[0-9.]+ s \([0-9.]+ s of processor\)$/a while/; s/ +/ /g; /^[0-9]+ s of processor in [0-9]+ s$/d' || true
cd tree/tests/cli
grep . *.out *.code
