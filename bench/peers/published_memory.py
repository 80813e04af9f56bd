"""What a published run reports of its memory, and what Weir says of the same. For compare_estimates.py.

Three things are reported: what PyTorch's allocator had given out at most (Megatron's tests, NVIDIA's logs, Zero Bubble,
whose code prints it), what it had reserved (torchtitan), what the device had in use (BLOOM, by nvidia-smi; InternEvo,
which does not say).
"""

from published_rows import starts_with


def ranks_seen(row, judgement):
    """Of the ranks that the source has looked at: the last, the first and the last nodes, or all."""
    ranks = judgement['ranks_bytes']
    if 'peak_gib_last_rank' in row['result']:
        return ranks[-1:]
    return [ranks[0], ranks[-1]] if starts_with(row, 'bloom') else ranks


def predicted_bytes(row, judgement):
    """What its source prints."""
    ranks = ranks_seen(row, judgement)
    if starts_with(row, 'torchtitan'):
        return max(rank['reserved_bytes'] for rank in ranks)
    if starts_with(row, 'bloom', 'internevo'):
        return max(rank['reserved_bytes'] for rank in ranks) + judgement['driver_bytes']
    return max(rank['given_out_bytes'] for rank in ranks)


def measured_bytes(row):
    result = row['result']
    for key, unit in (('peak_gb', 1e9), ('peak_gib', 2**30), ('peak_gib_last_rank', 2**30)):
        if result.get(key):
            return result[key] * unit
    return None
