"""The cut of `auto_partition`, as PyTorch's pull request 179212 describes it, for comparisons. Written for this, not
copied.

What it does: a layer's cost is its forward and its backward. A dynamic program cuts the layers, in their order, into as
many stages as the schedule has, so that the most expensive stage costs least; messages, memory and recomputation do not
count. Then it searches around that cut: the first layer of a critical stage moves to the stage before it, or the last
one to the stage behind it, the stages in front are cut anew by the same dynamic program, each such cut is simulated,
and the quickest is taken.

Three things differ from the pull request, and none makes a cut worse. It finds one critical stage, on the critical path
of its own simulator, and follows only cuts whose critical stage lies no further behind; here each stage is tried as the
critical one, which includes its cuts. Cuts are simulated by weir, with the cluster's messages. And no stage ends where
the profile forbids it (`no_cut_after`), since such a cut has other gradients.
"""

import collections

import weir

CUTS_MOST = 200  # that are simulated for one request
GLANCE = 1000  # units of work for each of them; the cut that is taken is planned with as much work as ours


def stages_of(plan):
    """The layers of each stage."""
    return [stage["layers"] for stage in plan.document["stages"]]


def balanced(costs, parts, may_end):
    """The ends (half open) of contiguous parts whose largest cost is least; None if there are too few layers."""
    sums = [0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    least = {(0, 0): (0, None)}  # (end, parts): largest cost, the end before
    for count in range(1, parts + 1):
        for end in range(count, len(costs) + 1):
            if end < len(costs) and not may_end(end):
                continue
            found = [(max(least[begin, count - 1][0], sums[end] - sums[begin]), begin)
                     for begin in range(count - 1, end) if (begin, count - 1) in least]
            if found:
                least[end, count] = min(found)
    if (len(costs), parts) not in least:
        return None
    ends, end = [], len(costs)
    for count in range(parts, 0, -1):
        ends.insert(0, end)
        end = least[end, count][1]
    return ends


def moved(costs, ends, stage, may_end):
    """The cuts that come of taking a layer from a stage, on either side, and balancing the stages in front."""
    begin = ends[stage - 1] if stage else 0
    if ends[stage] - begin > 1 and stage > 0 and (begin + 1 == len(costs) or may_end(begin + 1)):
        front = balanced(costs[:begin + 1], stage, may_end)
        if front is not None:
            yield front + ends[stage:]
    if ends[stage] - begin > 1 and stage < len(ends) - 1 and may_end(ends[stage] - 1):
        front = balanced(costs[:ends[stage] - 1], stage + 1, may_end)
        if front is not None:
            yield front + ends[stage + 1:]


def pins_of(names, ends):
    """Every layer on its stage: a plan of just this cut."""
    stage_of = {}
    for stage, end in enumerate(ends):
        stage_of.update((name, stage) for name in names[len(stage_of):end])
    return stage_of


def auto_partition(profile, cluster, stages, **request):
    """(the plan of its cut, that of the dynamic program alone); `request` is that of weir.partition."""
    layers = profile.document["layers"]
    names = [layer["name"] for layer in layers]
    costs = [layer["forward_ns"] + layer.get("backward_ns", layer["backward_input_ns"] + layer["backward_weight_ns"])
             for layer in layers]
    forbidden = {place + 1 for place in profile.document.get("no_cut_after", [])}

    def may_end(end):
        return end not in forbidden

    def plan_of(ends, **more):
        try:
            return weir.partition(profile, cluster, pins=pins_of(names, ends), own_order=True, **request, **more)
        except weir.WeirError:  # it does not fit
            return None

    first = balanced(costs, stages, may_end)
    if first is None:
        return None, None
    seen, queue = {tuple(first): plan_of(first, budget=GLANCE)}, collections.deque([first])
    while queue and len(seen) < CUTS_MOST:
        ends = queue.popleft()
        for stage in range(stages):
            for other in moved(costs, ends, stage, may_end):
                if tuple(other) not in seen:
                    seen[tuple(other)] = plan_of(other, budget=GLANCE)
                    queue.append(other)
    fitting = {ends: iteration_ns(plan) for ends, plan in seen.items() if plan is not None}
    if not fitting:
        return None, None
    return plan_of(min(fitting, key=fitting.get)), plan_of(first)


def even_split(profile, cluster, stages, **request):
    """The plan of stages of as many layers each, or None."""
    names = [layer["name"] for layer in profile.document["layers"]]
    ends = [(number + 1) * len(names) // stages for number in range(stages)]
    try:
        return weir.partition(profile, cluster, pins=pins_of(names, ends), own_order=True, **request)
    except weir.WeirError:
        return None


def iteration_ns(plan):
    """By weir simulate."""
    return plan.simulate().document["iteration_ns"]
