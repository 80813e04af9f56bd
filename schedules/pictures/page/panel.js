// One run's canvas: its lanes, the bytes below them, and what is under the pointer. Uses
// the view, the colours and the words of page.js, which makes one panel per run.
'use strict';

// In pixels: beside the lanes, above them, below them, and the height of the bytes.
const LEFT = 62, RIGHT = 136, RULER = 24, GAP_BELOW = 10, MEMORY = 120;
const THIN = .42, NEAR = .06;  // a lane of exchanges and its distance from that above, in pitches
const LIMIT_COLOUR = '#d0453b', MOST_LIMIT = 2 ** 50;  // bytes of a device: what has more has no limit

class Panel {
  constructor(run, number) {
    this.run = run;
    const section = document.createElement('section');
    section.innerHTML = '<h2></h2><canvas tabindex="0" role="img"></canvas>';
    section.querySelector('h2').textContent = run.name;
    const note = document.createElement('span');
    note.textContent = time(run.iteration) + ', makespan bubble ' + percent(run.bubble[0]);
    section.querySelector('h2').append(note);
    this.canvas = section.querySelector('canvas');
    this.canvas.setAttribute('aria-label', `${run.name}: ${run.ranks} ranks, ${time(run.iteration)}`);
    this.canvas.dataset.run = number;
    this.pen = this.canvas.getContext('2d');
    this.crowd = document.createElement('canvas');  // a pixel row per lane, where actions are narrower than pixels
    this.still = document.createElement('canvas');  // all that stays as the pointer moves
    document.getElementById('runs').append(section);
  }

  resize(room) {
    const run = this.run;
    this.memory = show.memory && run.holds ? MEMORY : 0;
    const exchanging = run.lanes.length - run.ranks;
    this.pitch = Math.min(34, Math.max(7, (room - RULER - GAP_BELOW - this.memory) / (run.ranks + THIN * exchanging)));
    this.lane = Math.max(6, this.pitch - Math.max(1, Math.min(6, this.pitch * .18)));
    this.width = this.canvas.clientWidth;
    this.plot = Math.max(50, this.width - LEFT - RIGHT);
    this.tops = [];
    for (let rank = 0, above = 0; rank < run.ranks; rank++) {
      const exchanges = run.lanes.indexOf(rank, run.ranks);
      this.tops[rank] = RULER + (rank + THIN * above) * this.pitch;
      if (exchanges < 0) continue;
      this.tops[exchanges] = this.tops[rank] + this.lane + NEAR * this.pitch;
      above++;
    }
    this.bottom = RULER + (run.ranks + THIN * exchanging) * this.pitch;
    this.height = this.bottom + GAP_BELOW + this.memory;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = this.height + 'px';
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.crowd.width = Math.ceil(this.plot);
    this.crowd.height = run.lanes.length;
    this.still.width = this.canvas.width;
    this.still.height = this.canvas.height;
    this.drawn = '';  // what `still` shows
  }

  x(ns) { return LEFT + (ns - view.from) * this.plot / (view.to - view.from); }
  y(lane) { return this.tops[lane]; }
  tall(lane) { return lane < this.run.ranks ? this.lane : (THIN - NEAR) * this.pitch; }
  laneAt(y) { return this.tops.findIndex((top, lane) => y >= top && y <= top + this.tall(lane)); }
  ns(x) { return view.from + (x - LEFT) * (view.to - view.from) / this.plot; }

  // Only what follows the pointer is drawn anew while the view stays.
  draw() {
    const pen = this.pen, shows = [view.from, view.to, show.critical, show.messages, show.dark, this.height,
      ...this.run.curves].join();
    pen.clearRect(0, 0, this.width, this.height);
    if (shows !== this.drawn) {
      this.drawStill();
      this.drawn = shows;
      const copy = this.still.getContext('2d');
      copy.clearRect(0, 0, this.still.width, this.still.height);
      copy.drawImage(this.canvas, 0, 0);
    } else {
      pen.drawImage(this.still, 0, 0, this.width, this.height);
    }
    if (!hovered || hovered.run !== this.run) return;
    if (hovered.box !== undefined) this.clipped(() => this.drawHovered());
    if (this.memory) this.drawHeld();
  }

  drawStill() {
    this.drawRuler();
    this.drawSides();
    if (this.memory) this.drawMemory();
    this.clipped(() => {
      this.drawLanes();
      if (show.messages) this.drawMessages();
      if (show.critical) this.drawChain();
    });
  }

  clipped(draw) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(LEFT, 0, this.plot, this.height);
    this.pen.clip();
    draw();
    this.pen.restore();
  }

  drawRuler() {
    const pen = this.pen, marks = Math.max(2, this.plot / 110), one = unit || 1, length = (view.to - view.from) / one;
    let step = Math.pow(10, Math.floor(Math.log10(length / marks)));
    step *= [1, 2, 5, 10].find(times => length / (step * times) <= marks);
    step = Math.max(1, step);
    const [name, size] = unit ? ['', 1]
      : step >= 1e9 ? ['s', 1e9] : step >= 1e6 ? ['ms', 1e6] : step >= 1e3 ? ['us', 1e3] : ['ns', 1];
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.textBaseline = 'middle';
    pen.textAlign = 'left';
    pen.fillStyle = theme.soft;
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let mark = Math.max(0, Math.ceil(view.from / one / step)); mark * step * one <= view.to; mark++) {
      const x = Math.round(this.x(mark * step * one)) + .5;
      pen.moveTo(x, 6);
      pen.lineTo(x, this.height);
      const number = (mark * step / size).toLocaleString('en', { maximumFractionDigits: 3 });
      pen.fillText(number + (name && ' ' + name), x + 4, 11);
    }
    pen.stroke();
  }

  // Lanes with room for their actions are drawn box by box, the others as a mixture of colours per pixel.
  drawLanes() {
    const run = this.run, b = run.boxes, pen = this.pen, end = Math.min(view.to, run.last);
    const buckets = new Map(), crowded = [];
    pen.fillStyle = theme.idle;
    for (let lane = 0; lane < run.lanes.length; lane++)
      pen.fillRect(this.x(0), this.y(lane), this.x(end) - this.x(0), this.tall(lane));
    for (let lane = 0; lane < run.lanes.length; lane++) {
      const from = firstAbove(b.latest, view.from, run.first[lane], run.first[lane + 1]);
      const to = firstAbove(b.start, view.to, from, run.first[lane + 1]);
      if (to - from > this.plot / 3)
        crowded.push([lane, from, to]);
      else
        for (let i = from; i < to; i++)
          if (b.end[i] > b.start[i]) {
            const key = (show.critical && !b.critical[i] ? 64 : 0) + b.kind[i] * 4 + b.shade[i];
            const bucket = buckets.get(key);
            if (bucket) bucket.push(i); else buckets.set(key, [i]);
          }
    }
    if (crowded.length) this.drawCrowd(crowded);
    for (const [key, bucket] of [...buckets].sort((x, y) => y[0] - x[0])) this.drawBoxes(key, bucket);
  }

  drawBoxes(key, bucket) {
    const b = this.run.boxes, pen = this.pen, kind = key >> 2 & 15, shade = key & 3, wide = [], again = [];
    pen.globalAlpha = key & 64 ? .28 : 1;
    pen.fillStyle = theme.boxes[kind][shade];
    for (const i of bucket) {
      const x = Math.max(LEFT - 4, this.x(b.start[i])), right = Math.min(this.width, this.x(b.end[i]));
      const height = this.tall(b.lane[i]) / b.rows[i], y = this.y(b.lane[i]) + height * b.row[i];
      const gap = right - x > 4 ? 1 : right - x > 2 ? .5 : 0;
      pen.fillRect(x, y, Math.max(.6, right - x - gap), b.rows[i] > 1 ? height - .5 : height);
      if (right - x > 15 && height > 9.5) wide.push([i, x, right, y + height / 2 + .5]);
      if (b.again[i] > 0) again.push([x, this.x(b.start[i] + b.again[i]), y, height]);
    }
    const mauve = data.kinds.findIndex(entry => entry.letter === 'R');
    pen.fillStyle = theme.boxes[mauve][0];
    for (const [x, right, y, height] of again)
      pen.fillRect(x, y + height * .8, Math.max(0, right - x), height * .2);
    pen.fillStyle = theme.inks[kind][shade];
    pen.font = (this.lane > 20 ? 11 : 10) + 'px system-ui, "DejaVu Sans", sans-serif';
    pen.textAlign = 'center';
    for (const [i, x, right, y] of wide) {
      const [full, short] = [true, false].map(withStage => label(this.run, i, withStage).replace('SEND_', ''));
      const text = this.run.chunks > 1 && full.length * 6.8 + 3 < right - x ? full : short;
      if (text.length * 6.6 + 2 < right - x) pen.fillText(text, (x + right) / 2, y);
    }
    pen.globalAlpha = 1;
  }

  // Each pixel has the mixture of what is done in its time.
  drawCrowd(lanes) {
    const columns = this.crowd.width, crowdPen = this.crowd.getContext('2d'), pen = this.pen;
    const image = crowdPen.createImageData(columns, this.run.lanes.length), pixels = new Uint32Array(image.data.buffer);
    const shares = new Float32Array(columns * 4), strength = show.critical ? 90 : 255;
    for (const [lane, from, to] of lanes) {
      shares.fill(0);
      this.mix(from, to, shares);
      for (let column = 0, at = 0; column < columns; column++, at += 4) {
        const share = shares[at + 3];
        if (share > 0)
          pixels[lane * columns + column] = (Math.min(1, share) * strength << 24 | shares[at + 2] / share << 16
            | shares[at + 1] / share << 8 | shares[at] / share) >>> 0;
      }
    }
    crowdPen.putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    for (const [lane] of lanes)
      pen.drawImage(this.crowd, 0, lane, columns, 1, LEFT, this.y(lane), columns, this.tall(lane));
  }

  mix(from, to, shares) {
    const { start, end, kind, shade } = this.run.boxes, columns = this.crowd.width, colours = theme.colours;
    const scale = this.plot / (view.to - view.from), begin = view.from;
    for (let i = from; i < to; i++) {
      const colour = (kind[i] * 4 + shade[i]) * 3, x1 = Math.min(columns, (end[i] - begin) * scale);
      let x0 = Math.max(0, (start[i] - begin) * scale);
      while (x0 < x1) {
        const column = x0 | 0, until = Math.min(x1, column + 1), share = until - x0, at = 4 * column;
        shares[at] += share * colours[colour];
        shares[at + 1] += share * colours[colour + 1];
        shares[at + 2] += share * colours[colour + 2];
        shares[at + 3] += share;
        x0 = until;
      }
    }
  }

  // The boxes of the chain where the lanes are crowded, and the steps between its ranks.
  drawChain() {
    const b = this.run.boxes, pen = this.pen;
    pen.fillStyle = pen.strokeStyle = theme.accent;
    pen.lineWidth = 1.6;
    pen.beginPath();
    for (const i of this.run.chain) {
      const height = this.tall(b.lane[i]) / b.rows[i], y = this.y(b.lane[i]) + height * b.row[i];
      const x = this.x(b.start[i]), width = Math.max(1, this.x(b.end[i]) - x), cause = b.cause[i] - 1;
      if (x + width >= LEFT && x <= this.width) pen.fillRect(x, y + height - 2.5, width, 2.5);
      if (cause >= 0 && b.rank[cause] !== b.rank[i]) {
        pen.moveTo(this.x(b.end[cause]), this.y(b.rank[cause]) + this.lane / 2);
        pen.lineTo(x, y + height / 2);
      }
    }
    pen.stroke();
  }

  drawMessages() {
    const list = this.run.messages, pen = this.pen;
    if (list.length / 4 * (view.to - view.from) / whole > 20000) return;  // would be a grey cloud
    pen.strokeStyle = theme.soft;
    pen.lineWidth = .8;
    pen.beginPath();
    for (let at = 0; at < list.length; at += 4) {
      const x0 = this.x(list[at + 2]), x1 = this.x(list[at + 2] + list[at + 3]);
      if (x1 < LEFT || x0 > this.width || list[at] === list[at + 1]) continue;
      const down = list[at + 1] > list[at];
      const y0 = this.y(list[at]) + (down ? this.lane : 0), y1 = this.y(list[at + 1]) + (down ? 0 : this.lane);
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      const turn = Math.atan2(y1 - y0, x1 - x0);
      pen.moveTo(x1 - 5 * Math.cos(turn - .4), y1 - 5 * Math.sin(turn - .4));
      pen.lineTo(x1, y1);
      pen.lineTo(x1 - 5 * Math.cos(turn + .4), y1 - 5 * Math.sin(turn + .4));
    }
    pen.stroke();
  }

  drawHovered() {
    const b = this.run.boxes, pen = this.pen, i = hovered.box, cause = b.cause[i] - 1;
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 2;
    for (const each of [i, cause]) {
      if (each < 0) continue;
      const height = this.tall(b.lane[each]) / b.rows[each];
      pen.setLineDash(each === i ? [] : [3, 2]);
      pen.strokeRect(this.x(b.start[each]), this.y(b.lane[each]) + height * b.row[each],
        Math.max(1, this.x(b.end[each]) - this.x(b.start[each])), height);
    }
    pen.setLineDash([]);
    if (cause >= 0 && b.rank[cause] !== b.rank[i]) {
      pen.beginPath();
      pen.moveTo(this.x(b.end[cause]), this.y(b.rank[cause]) + this.lane / 2);
      pen.lineTo(this.x(b.start[i]), this.y(b.rank[i]) + this.lane / 2);
      pen.stroke();
    }
  }

  drawSides() {
    const run = this.run, pen = this.pen, every = Math.ceil(10 / this.pitch);
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    for (let rank = 0; rank < run.ranks; rank += every) {
      const y = this.y(rank) + this.lane / 2;
      pen.textAlign = 'right';
      pen.fillStyle = this.memory && run.curves.has(rank) ? curveColour(run, rank) : theme.soft;
      pen.fillText('rank ' + rank, LEFT - 8, y);
      pen.fillStyle = theme.soft;
      pen.fillText(Math.round(100 * (1 - run.busy[rank] / run.iteration)) + ' % idle', LEFT + this.plot + 60, y);
      if (run.peaks[rank]) pen.fillText(bytes(run.peaks[rank]), this.width - 4, y);
    }
    pen.textAlign = 'right';
    for (let lane = run.ranks; lane < run.lanes.length && this.tall(lane) > 9; lane++)
      pen.fillText('exchange', LEFT - 8, this.y(lane) + this.tall(lane) / 2);
    if (run.peaks.some(peak => peak > 0)) pen.fillText('live peak', this.width - 4, 11);
  }

  // The highest peak reaches the top, or the device's limit, where that is not far above.
  memoryY(count) {
    const top = this.bottom + GAP_BELOW + 6, floor = this.height - 4;
    return floor - (floor - top) * count / this.run.top;
  }

  // A step curve per chosen rank, on the time axis of the lanes.
  drawMemory() {
    const run = this.run, pen = this.pen, floor = this.height - 4, top = this.bottom + GAP_BELOW + 6;
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.strokeRect(LEFT + .5, top - 5.5, this.plot - 1, floor - top + 9);
    pen.fillStyle = theme.soft;
    pen.textAlign = 'right';
    pen.fillText(bytes(run.top), LEFT - 8, top + 2);
    pen.fillText('0', LEFT - 8, floor - 2);
    pen.textAlign = 'left';
    pen.fillText('bytes held', LEFT + this.plot + 10, floor - 2);
    this.clipped(() => { for (const rank of run.curves) this.drawCurve(rank, 1.4); });
    this.drawLimits();
  }

  // What the devices have: a line, with words at its end; far above the curves, words alone. One for all that have as
  // much.
  drawLimits() {
    const run = this.run, pen = this.pen, top = this.bottom + GAP_BELOW + 6, same = new Set(run.limits).size === 1;
    const ranks = same ? [0] : [...run.curves].filter((rank, i, all) =>
      all.findIndex(other => run.limits[other] === run.limits[rank]) === i).slice(0, 4);
    let free = top;
    pen.textAlign = 'left';
    ranks.filter(rank => run.limits[rank] > 0 && run.limits[rank] < MOST_LIMIT)
      .sort((a, b) => run.limits[b] - run.limits[a]).forEach(rank => {
        const limit = run.limits[rank], seen = limit <= run.top, y = Math.round(this.memoryY(limit)) + .5;
        pen.fillStyle = pen.strokeStyle = same ? LIMIT_COLOUR : curveColour(run, rank);
        if (seen) {
          pen.setLineDash([6, 4]);
          pen.beginPath();
          pen.moveTo(LEFT, y);
          pen.lineTo(LEFT + this.plot, y);
          pen.stroke();
          pen.setLineDash([]);
          free = Math.max(free, y);
        }
        const whose = same ? '' : `rank ${rank}: `;
        pen.fillText(`${whose}limit ${bytes(limit)}${seen ? '' : ', above'}`, LEFT + this.plot + 10, free);
        free += 13;
      });
  }

  drawCurve(rank, width) {
    this.pen.strokeStyle = curveColour(this.run, rank);
    this.pen.lineWidth = width;
    this.pen.beginPath();
    this.trace(this.run.levels[rank]);
    this.pen.stroke();
  }

  // Within one pixel only the lowest, highest and last matter.
  trace(levels) {
    const pen = this.pen, y = count => this.memoryY(count), times = levels.times, values = levels.values;
    const end = this.x(Math.min(view.to, this.run.last));
    let i = Math.max(0, firstAbove(times, view.from, 0, times.length) - 1);
    let pixel = -1, low = 0, high = 0, last = i < values.length ? values[i] : 0;
    pen.moveTo(Math.max(LEFT - 2, this.x(0)), y(last));
    for (; i < times.length && times[i] <= view.to; i++) {
      const x = this.x(times[i]), here = Math.round(x);
      if (here !== pixel) {
        pen.lineTo(x, y(last));
        pixel = here;
        low = high = last;
      }
      last = values[i];
      if (last < low || last > high) {
        low = Math.min(low, last);
        high = Math.max(high, last);
        pen.lineTo(x, y(last));
      } else {
        pen.moveTo(x, y(last));
      }
    }
    pen.lineTo(end, y(last));
  }

  // How many bytes the rank under the pointer holds.
  drawHeld() {
    const { rank, time } = hovered, levels = this.run.levels[rank], pen = this.pen;
    const i = firstAbove(levels.times, time, 0, levels.times.length) - 1;
    if (this.run.curves.has(rank)) this.clipped(() => this.drawCurve(rank, 2.6));
    pen.fillStyle = theme.ink;
    pen.textAlign = 'left';
    pen.fillText(`${bytes(i < 0 ? 0 : levels.values[i])} on ${rank}`, LEFT + this.plot + 10,
      this.height - 20);
  }

  // What is under the pointer.
  find(x, y) {
    const run = this.run, b = run.boxes, lane = this.laneAt(y), at = this.ns(x);
    if (x > LEFT + this.plot || x < LEFT || lane < 0) return null;
    const rank = run.lanes[lane], offset = y - this.y(lane), tall = this.tall(lane);
    const first = run.first[lane], end = run.first[lane + 1], next = firstAbove(b.start, at, first, end);
    for (let i = next - 1; i >= first && i > next - 40; i--)
      if (b.end[i] > at && Math.floor(offset / (tall / b.rows[i])) === b.row[i])
        return { run, rank, box: i, time: at };
    const before = next > first ? b.latest[next - 1] : 0;
    if (at < 0 || at > run.last || before > at) return null;
    return { run, rank, time: at, idle: [before, next < end ? b.start[next] : run.last], next: next < end ? next : -1 };
  }
}

// Along the ranks from blue over green to yellow: light and dark apart, whatever one's eyes.
function curveColour(run, rank) {
  const share = run.ranks > 1 ? rank / (run.ranks - 1) : 0;
  return `hsl(${250 - 200 * share} ${65 + 15 * share}% ${show.dark ? 62 + 8 * share : 44 - 4 * share}%)`;
}
