# The check of GPUs where there is none: it lists its rows, each in one part at least, skips every one visibly, and no row
# passes; tried on a processor all that needs no GPU does pass; and the programs that compare kernels and layers do find
# those of other devices of the cpu good, within the bounds of their numbers.
set -u
if [ -e /dev/nvidiactl ]; then
    echo '# skip: there is a driver here'
    exit 77
fi
mkdir bin tools  # as in the bundle
cp "$ROOT"/tools/gpu-check "$ROOT"/tools/gpu_rows.py "$ROOT"/tools/gpu_machine.py "$ROOT"/tools/gpu-peer tools
for program in bin/weir tests/device/compare_kernels tests/models/compare_layers bench/bench_actions \
    bench/bench_hand_over bench/bench_kernels; do
    ln -s "$WEIR_BUILD/$program" bin
done
check=tools/gpu-check

"$check" --list > list.txt
echo "list: exit $?"
for part in right speed processes; do "$check" --part $part --list; done | sort -u | cmp - <(sort list.txt)
"$check" --output table.txt > printed.txt
echo "without a GPU: exit $?"
cmp table.txt printed.txt
[ "$(grep -c ' skipped .*no GPU here: ' table.txt)" -eq "$(wc -l < list.txt)" ] || echo 'a row is not skipped'
tail -1 table.txt | sed 's/[1-9][0-9]* skipped/N skipped/; s/^[0-9]* s/N s/'
"$check" --only bytes | sed -n '2s/: .*//p'
"$check" --only abacus 2>&1 | tail -1
"$check" --from abacus 2>&1 | tail -1
"$check" --from bytes --only bytes 2>&1 | tail -1
echo '--- the last rows, and a limit to each'
"$check" --from memcheck --list
"$check" --from memcheck --row-seconds 50 --list
"$check" --from memcheck | grep -c ' skipped .*no GPU here: '
"$check" --output nowhere/table.txt 2>&1 | tail -1
echo '--- in parts, and within a time'
"$check" --part processes --within 150 --list | sed -n 1,3p
"$check" --part processes --from initcheck --list
"$check" --part right --from initcheck 2>&1 | tail -1
"$check" --part right --only bytes 2>&1 | tail -1
"$check" --part middle 2>&1 | tail -1 | tr -d \'
"$check" --within 5 2>&1 | tail -1
"$check" --within soon 2>&1 | tail -1
echo '--- no time for any'
"$check" --from memcheck --device cpu:queued --patience 0 --output over.txt > printed.txt
tail -n +2 over.txt | sed 's/^[0-9]* s/N s/'
"$check" --part speed --from profile-step --device cpu:queued --patience 0 | grep over:

"$check" --device cpu:queued --patience 10 --output tried.txt > printed.txt
echo "tried on a processor: exit $?"
cmp <(sort tried.txt) <(sort printed.txt)  # which has the rows as they have ended
awk '/ s  / { print $1, $2 }' tried.txt
grep ' failed ' tried.txt
sed -n 's/, [0-9.]* s$//; s/^--- //p' tried.txt.facts
tail -2 tried.txt | sed 's/^[0-9]*/N/'

for device in cpu:queued cpu:bf16; do
    for program in compare_kernels compare_layers; do
        bin/$program $device 1 small > $device.txt || grep FAILED $device.txt
        grep -c ' good$' $device.txt
        tail -1 $device.txt
    done
done
for program in bin/compare_*; do
    WEIR_PLUGINS=$PWD "$program" cuda > /dev/null 2>&1
    echo "${program#bin/} without a GPU: exit $?"
done

echo '--- kernels that racecheck would not look at, since it knows ours by their names'
grep -h __global__ "$ROOT"/device/cuda/* | sed 's/__launch_bounds__([^)]*)//; s/(.*//; s/.* //' |
    grep -vE '^[a-z_]+_kernel$'
exit 0
