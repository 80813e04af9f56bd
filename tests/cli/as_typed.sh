# Commands as people type them: a schedule's name where a file is expected, names that are nearly right, units and files
# that are something else. What cannot be meant is one sentence with what could.
exec 2>&1
try() { echo "\$ weir $*"; weir "$@" | sed -n "1,${lines:-1}p"; echo "exit ${PIPESTATUS[0]}"; }
cost=18522us,18086us,9337us,601us

echo "# a schedule's name is the schedule's file"
for name in 1f1b zb-v interleaved pipedream; do
    weir schedule $name --ranks 8 --micro-batches 16 --format json -o $name.json
    weir simulate $name.json --cost $cost > file.txt
    weir simulate $name --ranks 8 --micro-batches 16 --cost $cost | cmp - file.txt
    weir simulate --schedule $name --ranks 8 --cost $cost --micro-batches 16 | cmp - file.txt
    weir simulate $name.json --cost $cost --format svg > file.svg
    weir simulate $name -p 8 -m 16 --cost $cost --format svg | cmp - file.svg
    weir check $name.json > file.txt
    weir check $name -p 8 -m 16 | cmp - file.txt
done
weir schedule interleaved -p 4 -m 8 -v 3 --format json -o three.json
weir simulate three.json --cost $cost --json > file.txt
weir simulate interleaved -p 4 -m 8 --chunks 3 --cost $cost --json | cmp - file.txt
weir schedule seq1f1b -p 4 -m 8 --splits 4 --format json -o parts.json
weir simulate parts.json --cost 4,4,4,0 --json > file.txt
weir simulate seq1f1b -p 4 -m 8 --splits 4 --cost 4,4,4,0 --json | cmp - file.txt
weir simulate zb-v.json --cost $cost --against 1f1b.json | sed 's/\.json//g' > file.txt
weir simulate zb-v -p 8 -m 16 --cost $cost --against 1f1b | cmp - file.txt

echo "# what is missing, or too much"
try simulate zb-v
try simulate zb-v --ranks 8 --cost $cost
try simulate zb-v --ranks 8 --micro-batches 16
try simulate zb-v.json --ranks 8 --cost $cost
try check zb-v --ranks 3 --micro-batches 0
try check zb-v -p 4 -m 8 --profile zb-v.json
try compare 1f1b trace.json
cp 1f1b.json gpipe  # a file that is called like a schedule is the file, unless it is said how large the schedule is
weir simulate gpipe --cost $cost | head -n 1
weir simulate gpipe -p 2 -m 2 --cost $cost | head -n 1

echo "# names that are nearly right"
try schedule 1F1B --ranks 4 --micro-batches 8
try simulate zbv --ranks 4 --micro-batches 8
try simulate zbv
try simulate nothing
try schedule ZBVZeroBubble --ranks 4 --micro-batches 8
try simulat
try profile gpt_nano
try export Megatron plan.json
try import pipedraem graph.txt
try partition profile.json --optimizer AdamW
try sweep profile.json --for pytroch

echo "# units and files that are something else"
weir profile gpt-nano,width=16,blocks=1,heads=2,sequence=8 -o profile.json > /dev/null
sed -i 's/"whole_ns": [0-9]*/"whole_ns": 0/' profile.json  # a busy machine's would be untrusted, which is said
try partition profile.json --cluster '2 devices, 12GiB, 12Gb/s 5us' --schedule 1f1b --micro-batches 8
try partition profile.json --cluster '2 devices, 80gb, 12GB/s 5us' --schedule 1f1b --micro-batches 8
try partition profile.json --cluster '2 devices, 80GiB, 12GB 5us' --schedule 1f1b --micro-batches 8
weir schedule 1f1b -p 2 -m 4 --format csv -o order.csv 2> /dev/null
try partition order.csv --cluster '2 devices, 1GiB, 12GB/s 5us' --schedule 1f1b --micro-batches 8
try explain order.csv --profile order.csv
try simulate 1f1b.json --cost $cost --cluster order.csv
try estimate order.csv --device h100-sxm

echo "# pictures for a paper, in its font and as wide as its columns; costs without units have none there either"
picture() { weir simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --format svg "$@"; }
picture | head -n 2
picture --width 500 --font 'Times New Roman' --title 'Ours & theirs' | head -n 2
picture | grep -c ' ns'
weir simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --format html --title 'Ours & theirs' | grep '<title>'
weir simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --against 1f1b --width 70 | sed -n '/^against/,/^first/p'
try simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --format svg --width 200
try simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --font Times
try simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --title Ours
try simulate zb-v -p 4 -m 8 --cost 1,1,1,0 --format html --width 500
