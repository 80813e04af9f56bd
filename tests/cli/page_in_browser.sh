# The page of a timeline in a real browser: it draws, says what an action waited for, and what differs.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "# skip: there is no Chromium here"
    exit 77
fi
set -eu
weir schedule zb-h1 --ranks 4 --micro-batches 8 --format json > zb.json
weir schedule 1f1b --ranks 4 --micro-batches 8 --format json > 1f1b.json
cost="--cost 10us,12us,8us,2us --keep 4MiB,1MiB"
weir simulate zb.json $cost --against 1f1b.json --format html -o page.html

# What the page is once it has drawn itself, opened with a link that says how it begins.
opened() {
    HOME=$PWD XDG_CONFIG_HOME=$PWD "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$PWD/user" --window-size=1400,900 --virtual-time-budget=5000 --dump-dom "file://$PWD/page.html#$1" \
        2>browser.log >opened.html
    grep -q 'data-state="ready"' opened.html || { echo "the page did not come up:"; tail -5 browser.log; exit 1; }
}
has() {
    grep -q "$1" opened.html || { echo "the page does not say: $1"; exit 1; }
}

# Rank 2 at 85 us does I1, whose gradient came from rank 3.
opened "light&critical&messages&hover=0,2,85000"
has '<b>2I1</b> backward for the input, 12.0 us'
has 'waits for <em>3I1</em> of rank 3, whose message took 2.00 us and arrived at 82.0 us'
has '<b>First difference</b> in the order: rank 3, action 1'
has '<td>iteration</td><td>306 us</td><td>362 us</td><td>−56.0 us (−15.5 %)</td>'
# Between two actions there is nothing but waiting.
opened "dark&hover=0,0,60000"
has '<b>idle</b> 48.0 us'
has 'then <em>0I0</em>, which waits for <em>1I0</em> of rank 1'
# A group says so.
weir schedule dualpipev --ranks 2 --chunks 2 --micro-batches 4 --format json > groups.json
cp page.html two.html
weir simulate groups.json --cost 10us,10us,10us,0us --overlapped 24us --format html -o page.html
opened "light&hover=0,1,95000"
has 'together with <em>1B0</em>'
cp two.html page.html
# Exchanges have a lane of their own, behind those of ranks.
weir schedule tables-ahead --ranks 1 --micro-batches 4 --format json >ahead.json
cat >ahead-costs.json <<'END'
{ "format": "weir.costs", "version": 1, "costs": [
  { "forward_ns": 2, "backward_ns": 3, "backward_input_ns": 1, "backward_weight_ns": 2, "exchange_ns": 5 },
  { "forward_ns": 6, "backward_ns": 9, "backward_input_ns": 4, "backward_weight_ns": 5 } ] }
END
weir simulate ahead.json --cost ahead-costs.json --format html -o page.html
opened "light&critical&hover=0,1,3"
has '<b>0SEND_F0</b> exchange forward, 5 ns'
has 'waits for its rank, which did <em>0F0</em> until 2 ns</div><div>on the critical path'
has 'SEND_F: exchange forward</span>'
has '<button data-key="m" [^>]*hidden'
opened "light&hover=0,0,8"
has 'waits for <em>0F0</em> of rank 0, whose message took 5 ns and arrived at 7 ns'
# Costs without units are written without, wherever a time stands.
weir simulate zb.json --cost 10,12,8,2 --format html -o page.html
opened "light&critical&hover=0,2,85"
has '<b>2I1</b> backward for the input, 12'
has '<th>iteration</th>'
has '<td>306</td>'
for unit in ns us ms; do
    if grep -oE "[0-9] $unit[,<]" opened.html; then echo "a time in $unit of costs without units"; exit 1; fi
done
# What a plan's devices have is a line in the chart of bytes; far above the curves it is said.
cat > small.txt <<'END'
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.0, parameter_size=0.000
node2 -- Linear(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
node3 -- Linear(b) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=65536.0, parameter_size=1048576.000
	node1 -- node2
	node2 -- node3
END
weir import pipedream small.txt -o profile.json
limits=('limit 8.00 MiB; lines: 1' 'limit 80.0 GiB, above; lines: 0')
for memory in 8MiB 80GiB; do
    cluster="2 devices, $memory, 10GB/s 1us"
    weir partition profile.json --cluster "$cluster" --schedule 1f1b --micro-batches 4 -o plan.json > /dev/null
    weir simulate plan.json --format html -o page.html
    cat page.html - > limited.html <<'END'
<script>
const words = [], pen = panels[0].pen, write = pen.fillText.bind(pen), lines = [];
pen.fillText = (text, ...place) => { words.push(text); write(text, ...place); };
const dash = pen.setLineDash.bind(pen);
pen.setLineDash = pattern => { if (pattern.length) lines.push(pattern); dash(pattern); };
panels[0].drawn = '';
panels[0].draw();
document.body.dataset.words = words.filter(word => /limit|peak/.test(word)).join('; ') + '; lines: ' + lines.length;
</script>
END
    mv limited.html page.html
    opened light
    has "data-words=\"live peak; ${limits[0]}\""
    limits=("${limits[@]:1}")
done
# Runs that do different work are not what one compares; what there is none of is not offered.
weir schedule 1f1b --ranks 4 --micro-batches 6 --format json > fewer.json
weir simulate zb.json --cost 10us,12us,8us,0us --against fewer.json --format html -o page.html 2>/dev/null
opened "light"
has 'Careful: the two do different work: 32 forwards and 32 backwards of 4 stages against 24 forwards'
has '<button data-key="b" [^>]*hidden'
mv two.html page.html
# What people do: the wheel zooms around the pointer, dragging moves along, keys and buttons do what they say.
cat page.html - >acted.html <<'END'
<script>
const canvas = document.querySelector('canvas'), place = canvas.getBoundingClientRect(), panel = panels[0], said = [];
const says = (what, holds) => said.push(what + (holds ? ' holds' : ' FAILS'));
const at = (x, y) => ({ clientX: place.left + x, clientY: place.top + y, bubbles: true, cancelable: true });
const strike = key => dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
const length = () => view.to - view.from;
let before = panel.ns(500), was = length();
canvas.dispatchEvent(new WheelEvent('wheel', { ...at(500, 60), deltaY: -400 }));
says('wheel', length() < was / 1.9 && Math.abs(panel.ns(500) - before) < 1);
before = panel.ns(700);
canvas.dispatchEvent(new PointerEvent('pointerdown', { ...at(700, 60), pointerId: 1 }));
canvas.dispatchEvent(new PointerEvent('pointermove', { ...at(600, 60), pointerId: 1 }));
canvas.dispatchEvent(new PointerEvent('pointerup', { ...at(600, 60), pointerId: 1 }));
says('drag', Math.abs(panel.ns(600) - before) < 1);
strike('0');
says('whole', view.from <= 0 && view.to >= whole);
was = length();
strike('+');
says('closer', length() < was);
strike('ArrowRight');
says('along', view.from > 0);
strike('c');
says('critical', show.critical && document.querySelector('[data-key=c]').getAttribute('aria-pressed') === 'true');
strike('b');
says('memory', !show.memory && panel.memory === 0);
document.querySelector('[data-key=t]').click();
says('dark', document.documentElement.dataset.theme === (show.dark ? 'dark' : 'light'));
strike('d');
says('difference', hovered && label(hovered.run, hovered.box, true) === '3I0');
strike('w');
says('cause', label(hovered.run, hovered.box, true) === '3F0');
strike('n');
says('next', label(hovered.run, hovered.box, true) === '3I0');
const curves = panel.run.curves.size;
canvas.dispatchEvent(new PointerEvent('pointerdown', { ...at(10, 40), pointerId: 1 }));
canvas.dispatchEvent(new PointerEvent('pointerup', { ...at(10, 40), pointerId: 1 }));
says('curve', panel.run.curves.size === curves - 1);
document.body.dataset.said = said.join(', ');
</script>
END
mv acted.html page.html
opened "light"
has 'data-said="wheel holds, drag holds, whole holds, closer holds, along holds, critical holds, memory holds, dark holds, difference holds, cause holds, next holds, curve holds"'
