# The check of GPUs on a machine that is played: a driver that knows one device, programs of the bundle that run on the
# processor what they are asked to run on the GPU, tools of NVIDIA's that only start what they are given, and a PyTorch
# that is slow, or quick, or not there. So everything of the script is run, also what judges, and what ends it early.
set -u
if [ -e /dev/nvidiactl ]; then
    echo '# skip: there is a driver here'
    exit 77
fi
mkdir bin tools played
cp "$ROOT"/tools/gpu-check "$ROOT"/tools/gpu_rows.py "$ROOT"/tools/gpu_machine.py tools
echo 'int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }' > driver.c
"${CC:-gcc}" -shared -fPIC -o played/libcuda.so.1 driver.c
export LD_LIBRARY_PATH=$PWD/played PATH=$PWD/played:$PATH

cat > played/program << 'END'
#!/bin/bash
case ${0##*/} in
weir) program=bin/weir ;;
compare_kernels) program=tests/device/compare_kernels ;;
compare_layers) program=tests/models/compare_layers ;;
bench_*) program=bench/${0##*/} ;;
esac
arguments=()
for argument; do
    case ${0##*/}:$argument in
    bench_kernels:gpt2) argument=small ;;
    *:cuda | *:cuda:0 | *:cuda:tf32) argument=cpu:queued ;;
    *:cuda:*) argument=cpu:queued,${argument#cuda:} ;;
    *:gpt2*) argument=gpt-nano,width=16,blocks=4,heads=2,sequence=8,micro_batch=1$(
        grep -oE ',(un)?tied' <<< "$argument"
    ) ;;
    *:tokens.tok | *:text.txt) argument=$0.text ;;
    *:--pad-vocabulary) continue ;;
    esac
    arguments+=("$argument")
done
case ${0##*/},$# in
compare_*,1) arguments+=(1 small) ;;
esac
if [[ "${0##*/} $*" == weir\ train\ gpt2* ]]; then  # whose first loss is that of a vocabulary of its own
    stages=$(grep -c '"stage":' "$4")
    "$WEIR_BUILD/$program" "${arguments[@]}" > trained.$$
    code=$?
    sed -E "s/^(step +1 of .* loss )[0-9.]+/\1$(cat "$0.loss$stages")/" trained.$$
    exit $code
fi
exec "$WEIR_BUILD/$program" "${arguments[@]}"
END
cat > played/compute-sanitizer << 'END'
#!/bin/sh
[ "$1 $3 $4 $CUDA_MODULE_LOADING" = '--tool --error-exitcode 9 LAZY' ] || exit 9
tool=$2
shift 4
if [ $tool = racecheck ]; then
    [ "$1 $2" = '--kernel-name regex=_Z[0-9]+[a-z_]+_kernel' ] || exit 9
    shift 2
fi
exec "$@"
END
cat > played/ncu << 'END'
#!/bin/bash
if [ "$1" = --import ]; then
    cat "$2"
    exit
fi
while [ "$1" != --export ]; do shift; done
echo '==PROF== Report
"ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"
"","","byte","ns"
"0","void each_kernel<(int)8, gelu_body<__nv_bfloat16>>(T2, unsigned long)","128","1,500,000"
"1","nvjet_tst_256x128","4,096","2,250,000"
"2","nvjet_tst_256x128","4,096","2,000,000"' > "$2"
shift 2
exec "$@"
END
chmod +x played/*
for program in weir compare_kernels compare_layers bench_actions bench_hand_over bench_kernels; do
    cp played/program bin/$program
done

yes 'a weir evens out a flow' | head -n 4000 > bin/weir.text
echo 10.9779 | tee bin/weir.loss1 > bin/weir.loss4

peer() {  # of which matrix rate and speed
    printf '#!/usr/bin/env python3\nimport sys\nprint("PyTorch 9")\nfor name in sys.argv[1:]:\n    print(name, %s)\n' \
        "$1" > tools/gpu-peer
}
only() { printf -- '--only %s ' "$@"; }
check() {  # the verdicts of these rows
    tools/gpu-check --patience 10 $(only "$@") --output table.txt > printed.txt
    echo "exit $?"
    cmp <(sort table.txt) <(sort printed.txt)
    grep ' s  ' table.txt | cut -c 1-33 | sed 's/ *$//'
    grep ' failed ' table.txt | sed 's/ [0-9.]* s / N s /'
}

peer 1
echo '--- a slow PyTorch'
check machine matrix-rate kernels-tf32 layers-bf16 verify-gpt2-124M same-bits bytes speed pytorch-eager \
    connections-8 verify-processes interleaved-processes implicit-order profile-step vocabulary memcheck racecheck \
    pytorch-compiled
sed -n 's/^profile-step .* ms of kernels, /profile-step: /p' table.txt | sed "s|$PWD/||"
grep -c 'each_kernel' table.txt.ncu-rep
grep -cE '^vocabulary .* is [0-9.]+% (faster|slower): ' table.txt
peer 1000000000000000000
echo '--- a quick one, and how many processes are started for rows that share'
check matrix-rate speed pytorch-eager
grep started table.txt
check pytorch-compiled
printf 'print("PyTorch is not installed")\nraise SystemExit(4)\n' > tools/gpu-peer
echo '--- none'
check matrix-rate speed pytorch-eager
printf 'print("PyTorch 9\\nmatrix-rate 7", flush=True)\nraise SystemExit(1)\n' > tools/gpu-peer
echo '--- one that breaks'
check matrix-rate pytorch-eager

echo '--- trainings that begin with other losses, whatever their speed'
echo 10.9778 > bin/weir.loss4
check pipeline-on-one-gpu
echo 11.5 > bin/weir.loss1
check speed
echo 10.9779 | tee bin/weir.loss1 > bin/weir.loss4

# What hangs on the speed of this machine has a verdict, too, whichever it is.
tools/gpu-check --patience 10 --only pipeline-on-one-gpu --only prediction | grep -cE '^p[a-z-]+ +(passed|off target) '

echo '--- a plug-in that lacks a library'
mkdir -p lib/weir
"${CC:-gcc}" -shared -fPIC -Wl,-soname,libcublasLt.so.99 -o lib/libcublasLt.so.99 driver.c
"${CC:-gcc}" -shared -fPIC -Wl,--no-as-needed -o lib/weir/weir-cuda.so driver.c lib/libcublasLt.so.99
rm lib/libcublasLt.so.99
check machine | sed "s|$PWD|BUNDLE|g"
grep -h 'not found' table.txt.facts
rm -r lib

echo '--- NCCL that warns'
cat > bin/bench_hand_over << 'END'
#!/bin/sh
[ $WEIR_RANK ] || exit 0
printf '\n[when] host:1:2 [0] somewhere.cc:5 NCCL WARN rank %s is %s\n' $WEIR_RANK $NCCL_DEBUG > $NCCL_DEBUG_FILE
echo it cannot
exit 5
END
check nccl-hand-over
cat table.txt.failed

echo '--- ended in the middle, by a row that waits for ever'
cat > bin/bench_actions << 'END'
#!/bin/sh
echo here it stands
echo $$ > waiting
mv waiting "$0.waits"
exec sleep 1000
END
rows=$(only machine host-cost nccl-links)
until_it_waits() {
    rm -f bin/bench_actions.waits
    tools/gpu-check --patience 10 $rows --output cut.txt > seen.txt &
    until [ -e bin/bench_actions.waits ] || ! kill -0 $!; do sleep 0.05; done
    waiting=$(cat bin/bench_actions.waits)
}
without_times() {
    sed -E '1d; s/^(machine +measured) .*/\1/; s/ +[0-9.]+ s / N s /; s/^[0-9]+ (s|processes) /N \1 /' $1
}
until_it_waits
echo 'printed:'
without_times seen.txt
echo 'in the file:'
without_times cut.txt
kill $!
wait $!
echo "asked to end: exit $?"
without_times cut.txt
cmp <(tail -n 6 cut.txt) <(tail -n 6 seen.txt)
kill -0 $waiting 2> /dev/null && echo 'what it has started still runs'
ls cut.txt*
cat cut.txt.failed
until_it_waits
kill -9 $!
wait $! 2> /dev/null
echo "killed: exit $?"
kill $waiting
without_times cut.txt
echo '--- and with a limit to each row'
tools/gpu-check --patience 10 --only host-cost --row-seconds 1 --output cut.txt > /dev/null
echo "exit $?"
without_times cut.txt
cat cut.txt.failed

# A bundle without a program, and a program that fails.
printf '#!/bin/sh\necho it cannot\nexit 5\n' > bin/compare_kernels
rm bin/compare_layers
check kernels-fp32 layers-fp32 | sed 's|failed .*/bin/|failed, BUNDLE/bin/|'
