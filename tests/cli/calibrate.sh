# How fast this machine's kernels are, as a device for estimates; and what is no calibration.
exec 2>&1
weir profile --calibrate -o here.json && echo made
python3 - <<'END'
import json
device = json.load(open('here.json'))
print(device['format'], [product['dtype'] for product in device['products']], device['multiprocessors'])
product = device['products'][0]
print('sensible:', 1 <= product['gigaflops'] <= 100000, 1 <= product['permille'] <= 1000,
      1e8 <= device['memory_bytes_per_second'] <= 1e13, device['memory_bytes'] > 1 << 28)
END
cat > config.json <<'END'
{"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 4, "n_positions": 128, "vocab_size": 256,
 "tie_word_embeddings": false, "resid_pdrop": 0.0}
END
weir estimate config.json --device here.json --dtype fp32 --micro-batch 4 -o estimated.json && echo estimated
weir profile gpt-nano,blocks=2 -o measured.json > /dev/null
python3 - <<'END'
import json
measured, estimated = (json.load(open(name))['layers'] for name in ('measured.json', 'estimated.json'))
print('the same layers:', [layer['name'] for layer in measured] == [layer['name'] for layer in estimated],
      [layer['parameter_bytes'] for layer in measured] == [layer['parameter_bytes'] for layer in estimated])
END
weir partition estimated.json --cluster '2 devices, 1GiB, 1GB/s 5us' --schedule 1f1b --micro-batches 8 -o plan.json \
    > /dev/null && weir check plan.json --profile estimated.json | tail -1
weir profile --calibrate --device cpu:queued | grep -o '"dtype": "fp32"'
weir profile --calibrate gpt-nano | head -1
weir profile --calibrate --device abacus | cut -d: -f1,2
weir profile --calibrate --clock wall | head -1
