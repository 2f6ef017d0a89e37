#!/usr/bin/env python3
"""Draws one core of a trace that ascend_cycle_table --trace wrote: a lane a pipe, cycles along.

    scripts/ascend_timeline_svg.py TRACE.json OUT.svg [--core N]
"""
import argparse
import json

COLOURS = {'MTE2': '#3b6ea5', 'MTE1': '#5aa469', 'M': '#c8553d', 'FIX': '#8e5ea2', 'V': '#b08900',
           'MTE3': '#777777', 'S': '#bbbbbb'}
LANES = ['S', 'MTE2', 'MTE1', 'M', 'FIX', 'V', 'MTE3']


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('trace')
    parser.add_argument('out')
    parser.add_argument('--core', type=int, default=0)
    arguments = parser.parse_args()
    events = json.load(open(arguments.trace))['traceEvents']
    names = {e['tid']: e['args']['name'] for e in events
             if e['ph'] == 'M' and e['name'] == 'thread_name' and e['pid'] == arguments.core}
    work = [e for e in events if e['ph'] == 'X' and e['pid'] == arguments.core]
    end = max(e['ts'] + e['dur'] for e in work)
    lanes = [lane for lane in LANES if any(names[e['tid']] == lane for e in work)]
    width, height, left = 1100, 26, 60
    scale = (width - left - 10) / end
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="12">' % (width, height * len(lanes) + 30)]
    for i, lane in enumerate(lanes):
        y = i * height + 4
        mine = [e for e in work if names[e['tid']] == lane]
        out.append('<text x="4" y="%d">%s</text>' % (y + 15, lane))
        # Neighbours that would touch on paper are one box.
        boxes = []
        for e in sorted(mine, key=lambda e: e['ts']):
            a, b = e['ts'], e['ts'] + e['dur']
            if boxes and (a - boxes[-1][1]) * scale < 0.3:
                boxes[-1][1] = max(b, boxes[-1][1])
            else:
                boxes.append([a, b])
        for a, b in boxes:
            out.append('<rect x="%.1f" y="%d" width="%.1f" height="18" fill="%s"/>' % (
                left + a * scale, y, max(0.4, (b - a) * scale), COLOURS[lane]))
    for tick in range(0, int(end) + 1, 500):
        x = left + tick * scale
        out.append('<text x="%.1f" y="%d" fill="#555">%d</text>' % (x, height * len(lanes) + 20, tick))
    out.append('</svg>')
    open(arguments.out, 'w').write('\n'.join(out) + '\n')


if __name__ == '__main__':
    main()
