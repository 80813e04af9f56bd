# One byte of memory is refused with the layer that fits nowhere, and with what would fit: on a built-in model and on a real profile.
weir profile gpt-nano,width=32,blocks=2,heads=2,sequence=32 -o nano.json > nano.txt || cat nano.txt
for schedule in 1f1b zb-v; do
    weir partition nano.json --cluster '2 devices, 1GiB, 10GB/s 20us' --memory 1B --schedule $schedule --micro-batches 4 > out.txt 2> err.txt
    echo "exit $?"; grep -v untrusted err.txt
    # With what is said to be the least memory there is a plan.
    option=$(sed -n 's/.* on each device.*: \(--memory [0-9]*B\)$/\1/p' out.txt)
    weir partition nano.json --cluster '2 devices, 1GiB, 10GB/s 20us' $option --schedule $schedule --micro-batches 4 > fits.txt && echo "fits with $option"
done
data=$ROOT/../shared/data/partition/pipedream
if [ ! -d "$data" ]; then
    echo '# skip: the real profiles are not here (shared/data beside the project)'
    exit 77
fi
weir import pipedream "$data/vgg16.graph.txt" -o vgg16.json > /dev/null
weir partition vgg16.json --cluster '4 devices, 16GiB, 10GB/s 10us' --memory 1B --schedule 1f1b --micro-batches 8 2>&1
echo "exit $?"
echo "# 13.5 GiB: less than the least"
weir partition vgg16.json --cluster '4 devices, 13.5GiB, 10GB/s 10us' --schedule 1f1b --micro-batches 8 2>&1
echo "exit $?"
