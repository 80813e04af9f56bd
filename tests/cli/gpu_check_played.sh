# The check of GPUs on a machine that is played: a driver that knows one device, programs of the bundle that run on the
# processor what they are asked to run on the GPU, a compute-sanitizer that only starts what it is given, and a PyTorch
# that is slow, or quick, or not there. So everything of the script is run, also what judges.
set -u
if [ -e /dev/nvidiactl ]; then
    echo '# skip: there is a driver here'
    exit 77
fi
mkdir bin tools played
cp "$ROOT"/tools/gpu-check "$ROOT"/tools/gpu_machine.py tools
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
    case $argument in
    cuda | cuda:0 | cuda:tf32) argument=cpu:queued ;;
    cuda:*) argument=cpu:queued,${argument#cuda:} ;;
    gpt2*) argument=gpt-nano,width=16,blocks=4,heads=2,sequence=8,micro_batch=1$(
        grep -oE ',(un)?tied' <<< "$argument"
    ) ;;
    tokens.tok) argument=$0.text ;;
    esac
    arguments+=("$argument")
done
case ${0##*/},$# in
compare_*,1) arguments+=(1 small) ;;
esac
exec "$WEIR_BUILD/$program" "${arguments[@]}"
END
cat > played/compute-sanitizer << 'END'
#!/bin/sh
[ "$1 $3 $4" = '--tool --error-exitcode 9' ] || exit 9
shift 4
exec "$@"
END
chmod +x played/*
for program in weir compare_kernels compare_layers bench_actions bench_hand_over; do
    cp played/program bin/$program
done

yes 'a weir evens out a flow' | head -n 4000 > bin/weir.text

peer() {  # of which matrix rate and speed
    printf '#!/usr/bin/env python3\nimport sys\nprint("PyTorch 9")\nprint(sys.argv[1], %s)\n' "$1" > tools/gpu-peer
}
check() {  # the verdicts of these rows
    tools/gpu-check --patience 10 $(printf -- '--only %s ' "$@") 2> /dev/null > table.txt
    echo "exit $?"
    grep ' s  ' table.txt | cut -c 1-33 | sed 's/ *$//'
    grep ' failed ' table.txt
}

peer 1
echo '--- a slow PyTorch'
check machine kernels-tf32 layers-bf16 matrix-rate speed pytorch-eager pytorch-compiled verify-gpt2-124M \
    verify-processes bytes same-bits host-cost nccl-hand-over nccl-links memcheck
peer 1000000000000000000
echo '--- a quick one'
check speed pytorch-compiled
printf 'print("PyTorch is not installed")\nraise SystemExit(4)\n' > tools/gpu-peer
echo '--- none'
check matrix-rate speed pytorch-eager

# What hangs on the speed of this machine has a verdict, too, whichever it is.
tools/gpu-check --patience 10 --only pipeline-on-one-gpu --only prediction 2> /dev/null |
    grep -cE '^p[a-z-]+ +(passed|off target) '

# A bundle without a program, and a program that fails.
printf '#!/bin/sh\necho it cannot\nexit 5\n' > bin/compare_kernels
rm bin/compare_layers
check kernels-fp32 layers-fp32 | sed 's|failed .*/bin/|failed, BUNDLE/bin/|'
