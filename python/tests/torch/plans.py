"""Plans for tests: of layers that all cost the same, so that only the schedule decides."""

import json
from typing import Any, Dict, List, Optional

import weir


def profile_of(layers: List[str]) -> str:
    """A profile's document of layers that take 3 ms each and hand on 4 KiB."""
    rows = [{"name": name, "kind": "part", "forward_ns": 1000000, "backward_input_ns": 1000000,
             "backward_weight_ns": 1000000, "parameter_bytes": 4096, "output_bytes": 4096, "saved_bytes": 4096,
             "input_kept": "weight", "held_for_weight_bytes": 4096, "workspace_bytes": 0, "backward_workspace_bytes": 0,
             "flops": 0} for name in layers]
    return json.dumps({
        "format": "weir.profile", "version": 1, "model": "test", "micro_batch": 1, "dtype": "fp32",
        "source": {"how": "estimated", "device": "none", "clock": "none", "repeats": 0, "sum_ns": 0, "whole_ns": 0,
                   "backward_split": "assumed"},
        "layers": rows})


def plan_of(layers: List[str], schedule: str, ranks: int, micro_batches: int, **more: Any) -> Dict[str, Any]:
    """The document of a plan of such layers."""
    profile = weir.Profile.from_json(profile_of(layers))
    plan = weir.partition(profile, f"{ranks} devices, 16GiB, 12GB/s 5us", schedule=schedule,
                          micro_batches=micro_batches, ranks=ranks, **more)
    return plan.document


def recomputed(plan: Dict[str, Any], segments: Optional[List[List[str]]] = None) -> Dict[str, Any]:
    """The plan with these segments recomputed, or with every stage as one."""
    for stage in plan["stages"]:
        if segments is None:
            stage["recompute"] = [stage["layers"]]
        else:
            stage["recompute"] = [segment for segment in segments if segment[0] in stage["layers"]]
    return plan
