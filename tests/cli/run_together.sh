# What is planned together runs together: layers run again by an R, parts of sequences, branches, the host, optimizers.
exec 2>&1
model=gpt-nano,width=32,blocks=3,heads=2,sequence=64
weir profile $model --repeats 20 -o gpt.json > /dev/null
weir profile mlp-unet,width=32,sequence=16 --repeats 20 -o unet.json > /dev/null
python3 - << 'P'
import json, re, subprocess
def order(name, *asked):
    made = json.loads(subprocess.run(['weir', 'schedule', *asked, '--ranks', '2', '--format', 'json'],
                                     capture_output=True, check=True).stdout)
    made['name'] = name
    made['actions'] = [' '.join(re.sub(r'(\d+)B(.*)', r'\1R\2 \1B\2', action) for action in rank.split())
                       for rank in made['actions']]
    json.dump(made, open(name + '.json', 'w'))
for name in 'gpt.json', 'unet.json':  # as if all took as long, so that plans are the same everywhere
    profile = json.load(open(name))
    for layer in profile['layers']:
        layer.update(forward_ns=1000000, backward_input_ns=1000000, backward_weight_ns=1000000, backward_ns=2000000)
        layer.pop('spread', None)
        layer.pop('recompute_ns', None)
    profile['source'] = {'how': 'estimated', 'device': 'none', 'clock': 'none', 'repeats': 1,
                         'backward_split': 'assumed', 'sum_ns': 3000000 * len(profile['layers']),
                         'whole_ns': 3000000 * len(profile['layers'])}
    json.dump(profile, open(name, 'w'))
order('again', '1f1b', '--micro-batches', '4')
order('parts', 'seq1f1b', '--micro-batches', '3', '--splits', '2')
P
plan() {
    profile=$1
    shift
    weir partition $profile.json --cluster "2 devices, 3MiB, 10GB/s 5us, host 1GiB 10GB/s" "$@" -o plan.json > said || ! cat said
}
# Bit for bit like a sequential run, on threads and on queues; and where something is run again, by an R of its own.
run() {
    grep -o '"again_bytes"' plan.json | uniq
    for device in cpu cpu:queued,cpu:queued; do
        weir verify plan.json --device $device --steps 2 "$@" 2> said | tail -1 | grep . || cat said
    done
}
plan gpt --memory 1900KiB --schedule ./again.json && run --clip 0.5
plan gpt --memory 1720KiB --schedule ./parts.json && run
for order in again parts; do
    plan gpt --schedule ./$order.json --host optimizer,activations && run
done
plan gpt --schedule ./again.json --host optimizer --window 1 && run
plan gpt --schedule seq1f1b --micro-batches 4 --host optimizer --window 1 && run
plan unet --memory 400KiB --schedule ./again.json && run
plan unet --schedule ./again.json --host optimizer,activations --window 2 && run
for optimizer in lamb adafactor adam8bit; do
    plan gpt --schedule 1f1b --micro-batches 4 --optimizer $optimizer --host optimizer && run
    plan unet --schedule 1f1b --micro-batches 4 --optimizer $optimizer && run
done
