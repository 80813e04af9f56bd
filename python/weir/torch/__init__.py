"""Plans that run in PyTorch: `pipeline` makes this rank's stages, `verify` holds them against the whole model.

    pipeline = weir.torch.pipeline(model, plan, sample=x, loss_fn=loss)
    optimizer = torch.optim.AdamW(pipeline.parameters())
    losses = pipeline.step(batch, target=target)

Start the ranks by torchrun. `links` measures what messages between them take, as a cluster's synopsis.
"""

from .. import capture  # first, since it refuses a PyTorch that is missing or too old
from .link_rates import links
from .pipelines import Pipeline, pipeline
from .verification import Verification, verify

__all__ = ["Pipeline", "Verification", "links", "pipeline", "verify"]
