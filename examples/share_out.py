"""How a model would best be trained on GPUs that nobody has rented yet: from its config.json to a plan, and why.

    python share_out.py config.json h100-sxm 64 512      # 64 GPUs, 512 sequences an iteration
"""

import sys
from typing import Any, Mapping

import weir


def main(config: str, device: str, devices: str, global_batch: str) -> None:
    asked = {'devices': int(devices), 'global_batch': int(global_batch)}
    found = weir.sweep_configs(config, device, **asked, progress=lambda words: print(words, file=sys.stderr))
    print(found.table())
    if found.best is None:
        sys.exit('Nothing fits: take more devices, or such as have more memory.')

    best = next(row for row in found if row['best'])
    print(found.best.text())                       # of one pipeline: which layers where, what runs again
    print(found.best.explain(found.profile))       # what binds, and what a change would gain

    # What is each kind of parallelism worth? The same question, with this answer taken away.
    for name in ('tensor', 'context', 'expert', 'ranks'):
        if best[name] > 1:
            print(f'with {name} 1 instead of {best[name]}: {iteration_without(name, config, device, asked, best)}')


def iteration_without(name: str, config: str, device: str, asked: dict[str, int], best: Mapping[str, Any]) -> str:
    try:
        rows = weir.sweep_configs(config, device, **asked, **{name: 1})
    except weir.WeirError as why:  # such as: no configuration of so many devices
        return str(why)
    least = min((row['iteration_ns'] for row in rows if row['iteration_ns']), default=None)
    return f'{least / best["iteration_ns"]:.2f} times as long' if least else 'nothing fits'


if __name__ == '__main__':
    main(*sys.argv[1:])
