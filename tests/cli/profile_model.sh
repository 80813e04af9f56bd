# `weir profile MODEL` measures a model: a table on stdout, the document in a file.
# Times differ from run to run; what stands in which place does not.
exec 2>&1
small=gpt-nano,width=32,heads=2,blocks=1,sequence=16,micro_batch=2
weir profile $small -o profile.json > table.txt; echo "exit $?"
sed -n '3,8p' table.txt | awk '{ print $1, NF }'
grep -c 'The layers add up to' table.txt
grep -E '"(model|micro_batch|dtype|how|clock|repeats|backward_split|name|parameter_bytes|input_kept)"' profile.json
weir profile --lint profile.json > findings.txt; test $? -le 1 && echo "it can be read again"
weir profile $small --json --clock wall --repeats 21 | grep -E '"(clock|repeats)"'
# What runs ahead of its host is timed by events.
weir profile $small --device cpu:queued --json | grep '"clock"'
weir profile $small --device cpu:queued --clock cpu; echo "exit $?"
weir profile gpt-nano,width=0; echo "exit $?"
weir profile nothing-like-this; echo "exit $?"
weir profile $small -o no/such/folder/profile.json > table.txt; echo "exit $?"
# Layers split over two devices, for plans.
weir profile $small --tensor 2 --cluster "2 devices, 1GiB, 1GB/s 2us" -o split.json > table.txt; echo "exit $?"
grep -E '"(name|communication_ns|devices)"' split.json
weir partition split.json --cluster "4 devices, 1GiB, 5GB/s 2us" --schedule 1f1b --micro-batches 4 --variants tensor2,- -o plan.json 2>&1 | grep -o 'variant tensor2'
weir profile $small --tensor 3; echo "exit $?"
weir profile mlp --tensor 3; echo "exit $?"
weir profile $small --cluster "2 devices, 1GiB, 1GB/s 2us" 2>&1 | head -1
weir profile gpt-nano --lint profile.json 2>&1 | head -1
weir profile gpt-nano --repeats 3 2>&1 | head -1
exit 0
