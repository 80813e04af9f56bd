# What is said where the GPU part, its driver or a GPU is missing; and that all else works without.
set -u
weir profile mlp,width=32,blocks=1 --repeats 20 -o profile.json > /dev/null 2>&1
weir partition profile.json --cluster '2 devices, 1GiB, 10GB/s 20us' --schedule 1f1b --micro-batches 4 -o plan.json > /dev/null

said() {  # exit code and sentence
    "$@" > out 2> err
    printf 'exit %d: %s\n' $? "$(sed "s|$PWD|HERE|; s|$WEIR_BUILD|BUILD|" err)"
    [ ! -s out ] || echo "and something was printed"
}

echo "# without the plug-in"
mkdir nothing
export WEIR_PLUGINS=$PWD/nothing
seq 20000 > data.txt
said weir train mlp,width=32,blocks=1 --plan plan.json --data data.txt --steps 1 --device cuda
said weir verify plan.json --device cuda:1
said weir profile gpt-nano --device cuda:bf16
said weir verify plan.json --device abacus
weir verify plan.json --steps 1 --device cpu | tail -1

echo "# beside what the caller calls the program, which may be anything"
mkdir -p strange/weir
cp "$WEIR_BUILD"/tests/device/played/sound/weir-cuda.so strange/weir
called_strange() { (unset WEIR_PLUGINS; exec -a "$PWD/strange/weir-program" "$(command -v weir)" verify plan.json --device cuda); }
called_strange 2>&1 | grep -c "played plug-in"

echo "# with one of another version, and of another build"
WEIR_PLUGINS=$WEIR_BUILD/tests/device/played/other_version said weir verify plan.json --device cuda
WEIR_PLUGINS=$WEIR_BUILD/tests/device/played/other_build said weir verify plan.json --device cuda
