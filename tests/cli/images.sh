# A trainer of images with state, metrics and evaluations: the same bits by threads, processes and MPI, by other cuts,
# run again or not, and gone on with by another plan.
set -e
if [ ! -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    echo '# skip: the package dataset-fashion-mnist is not installed'
    exit 77
fi
images=$WEIR_BUILD/examples/images
"$images" profile images.json
plan() {  # NAME RANKS SCHEDULE MEMORY
    weir partition images.json --cluster "$2 devices, $4, 10GB/s 1us" --schedule $3 --micro-batches 8 \
        --optimizer momentum -o $1.json >$1.txt
}
same() {  # FOLDER: its checkpoint has the bits of the first run's, and so the run has printed the same
    for file in one/step-4/*.safetensors; do
        cmp "$file" "$1/step-4/$(basename "$file")"
    done
    tail -n 1 $1.txt | cmp one.txt
}
plan one 2 1f1b 64MiB
plan again 3 gpipe 3MiB
grep -q 'runs again before their backward: ' again.txt
plan split 2 zb-h1 64MiB
plan waves 2 pipedream 64MiB

"$images" train one.json 4 one >one.txt
"$images" train split.json 4 resumed 2 >resumed.txt
"$images" train again.json 4 resumed >resumed.txt
same resumed
for rank in 0 1; do
    WEIR_RANK=$rank WEIR_RANKS=2 WEIR_RENDEZVOUS=$PWD/meet "$images" train one.json 4 processes >rank$rank.txt &
done
wait -n
wait -n
cat rank0.txt rank1.txt >processes.txt
same processes
if [ -e "$WEIR_BUILD/lib/weir-mpi.so" ] && command -v mpirun >/dev/null && [[ $WEIR_BUILD != *san* ]]; then
    env -u WEIR_PLUGINS IMAGES_DEVICE=cpu:queued,mpi mpirun -n 2 "$images" train one.json 4 mpi >mpi.txt
    same mpi
fi
"$images" verify waves.json
[ -n "${WEIR_SOAK-}" ] || exit 0

# Five epochs in batches of 64.
weir partition images.json --cluster "2 devices, 64MiB, 10GB/s 1us" --schedule 1f1b --micro-batches 4 \
    --optimizer momentum -o learns.json >/dev/null
"$images" train learns.json 4688 learnt | tee learnt.txt
awk '$1 > best { best = $1 } END { exit best < 0.88 }' learnt.txt
