#!/usr/bin/env python3
"""Draws what training runs' logs (docs/formats/log.md) say of held-out pictures: loss on the left, the share that is
right on the right, by epochs. Runs of one model have one colour.

    draw_logs.py LOG.. > PICTURE.svg
"""
import json
import os
import sys

COLOURS = ['#3b6fb6', '#c2452d', '#2e8b57', '#8a5fb0']
WIDTH, HEIGHT, MARGIN = 360, 220, 44


def read(path):
    """The evaluations of a log as (part of the run, loss, share that is right)."""
    points, steps = [], 1
    with open(path, encoding='utf-8') as file:
        for line in map(json.loads, file):
            if line['event'] == 'begin':
                steps = line['steps']
            elif line['event'] == 'evaluation' and 'right' in line:
                points.append((line['step'] / steps, line['bits'] * 0.6931471805599453, line['right']))
    return points


def chart(left, title, runs, column, least, most):
    def x(part):
        return left + MARGIN + part * (WIDTH - MARGIN - 10)

    def y(value):
        return 24 + (most - min(max(value, least), most)) / (most - least) * (HEIGHT - 60)

    out = [f'<text x="{left + MARGIN}" y="14" font-weight="bold">{title}</text>']
    for i in range(6):
        value = least + i * (most - least) / 5
        out.append(f'<line x1="{x(0):.1f}" x2="{x(1):.1f}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{x(0) - 6:.1f}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    out.append(f'<text x="{x(0.5):.1f}" y="{HEIGHT - 16}" text-anchor="middle">part of the run</text>')
    for colour, points in runs:
        line = ' '.join(f'{x(p[0]):.1f},{y(p[column]):.1f}' for p in points[1:])
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return out


def main():
    names = sorted({os.path.basename(path).rsplit('-', 1)[0] for path in sys.argv[1:]})
    colour = dict(zip(names, COLOURS))
    runs = [(colour[os.path.basename(path).rsplit('-', 1)[0]], read(path)) for path in sorted(sys.argv[1:])]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH + 20}" height="{HEIGHT + 20}"'
           ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>']
    out += chart(0, 'loss of held-out pictures', runs, 1, 0.2, 0.7)
    out += chart(WIDTH + 10, 'share of held-out pictures that is right', runs, 2, 0.75, 0.95)
    for i, name in enumerate(names):
        out.append(f'<rect x="{MARGIN + 150 * i}" y="{HEIGHT + 2}" width="12" height="4" fill="{colour[name]}"/>')
        out.append(f'<text x="{MARGIN + 150 * i + 18}" y="{HEIGHT + 8}">{name}</text>')
    print('\n'.join(out + ['</svg>']))


if __name__ == '__main__':
    main()
