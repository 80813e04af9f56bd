# Time against memory and devices: the table, the document, the picture; and every point is a plan that can be had.
cat > small.txt <<'END'
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=262144.0, parameter_size=65536.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=262144.0, parameter_size=65536.000
node4 -- Linear(c) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=4096.0, parameter_size=131072.000
	node1 -- node2
	node2 -- node3
	node3 -- node4
END
weir import pipedream small.txt -o profile.json > /dev/null
front() { weir front profile.json --cluster '3 devices, 4MiB, 10GB/s 10us' --schedule 1f1b --micro-batches 4 --optimizer sgd "$@"; }
exec 2>&1
front --resolution 0% --svg front.svg -o front.json
front --resolution 0% --json | cmp - front.json && echo "the same bytes"
front --svg - | head -c 4; echo
python3 - <<'END'
import json, subprocess, xml.dom.minidom
front = json.load(open('front.json'))
picture = xml.dom.minidom.parse('front.svg')
print(len(front['points']), 'points,', len(picture.getElementsByTagName('circle')), 'dots')
for point in front['points']:
    subprocess.run(['weir', 'partition', 'profile.json', '--cluster', '3 devices, 4MiB, 10GB/s 10us', '--schedule', '1f1b',
                    '--micro-batches', '4', '--optimizer', 'sgd', '--ranks', str(point['ranks']), '--memory',
                    f"{point['limit_bytes']}B", '--budget', str(front['budget']), '-o', 'plan.json'], check=True,
                   stdout=subprocess.DEVNULL)
    plan = json.load(open('plan.json'))
    same = (plan['predicted']['iteration_ns'] == point['iteration_ns']
            and max(stage['memory']['peak_bytes'] for stage in plan['stages']) == point['peak_bytes']
            and [len(stage['layers']) for stage in plan['stages']] == point['layers']
            and plan['certificate']['proved'] == point['proved'])
    print(point['ranks'], point['peak_bytes'], 'is a plan' if same else 'IS NO PLAN')
END
front --ranks 2 --resolution 20% | sed -n '3,/^$/p'

echo "# what cannot be"
front --memory 1KiB > none 2>&1; code=$?; cut -c 1-60 none; echo "exit $code"
try() { front "$@" | head -1; }
try --ranks 2,2
try --ranks 0
try --ranks 9
try --svg - --json
try --resolution 2
