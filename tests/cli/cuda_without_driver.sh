# The GPU part is there, found beside the program, and says what the machine lacks.
set -u
unset WEIR_PLUGINS  # it is found without
if [ ! -e "$WEIR_BUILD/lib/weir-cuda.so" ]; then
    echo '# skip: weir-cuda.so is not built here (scons cuda=yes says what it lacks)'
    exit 77
fi
if [ -e /dev/nvidiactl ]; then
    echo '# skip: there is a driver here'
    exit 77
fi
said() {  # exit code and sentence
    "$@" > out 2> err
    printf 'exit %d: %s\n' $? "$(cat err)"
    [ ! -s out ] || echo "and something was printed"
}
said weir profile mlp --device cuda
said weir profile mlp --device cuda:1,bf16
said weir profile mlp --device cuda:fast
echo "# what is set for CUDA and NCCL, and what is given stays"
said weir profile mlp --device cuda --verbose
CUDA_DEVICE_MAX_CONNECTIONS=8 said weir profile mlp --device cuda:1 --verbose
weir profile mlp --device cpu --repeats 20 --output profile.json --verbose 2>&1 > out | sed "s/is: .*/is: this processor/"
