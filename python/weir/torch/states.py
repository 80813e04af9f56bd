"""What is saved of a rank's stages, under the model's own names: so that any plan goes on from it."""

from typing import Any, Optional

import torch

from .forms import first_names
from .own_stages import OwnStages
from .saving import (check_state, fill, gathered_state, load_checkpoint, own_state, read_safetensors, save_checkpoint,
                     save_safetensors)


class SavedStages(OwnStages):
    """Their state, checkpoints, and files as Hugging Face has them."""

    def state_dict(self, *, gathered: bool = False) -> dict[str, torch.Tensor]:
        """What model.state_dict() would have of this rank's stages, under the model's own names; `gathered`: of all
        stages, on rank 0, as copies on the CPU, and nothing on the others. Every rank calls it then.

        A rank's own part may be given to torch.distributed.checkpoint, of whatever plan.
        """
        self._check_built()
        mine = own_state(self._model, self.modules, self._names)
        return gathered_state(self._model, mine, self._group) if gathered else mine

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Takes this rank's part of a state, whole or of these stages. Every rank calls it."""
        self._check_built()
        mine = own_state(self._model, self.modules, self._names)
        self._agreement.on(lambda: check_state(mine, state, self._model))
        fill(mine, state)

    def save(self, folder: str, optimizer: Optional[torch.optim.Optimizer] = None, **more: Any) -> None:
        """Writes a checkpoint by torch.distributed.checkpoint: every rank its part, of weights, buffers and optimizer.
        What was saved there before is removed once all is written.

        Args:
            optimizer: of `pipeline.parameters()`.
            more: what is the same on every rank, such as a step's number or scheduler.state_dict(): rank 0's is kept.
        """
        self._check_built()
        save_checkpoint(folder, self.state_dict(), self._names, optimizer, more, self._agreement)

    def load(self, folder: str, optimizer: Optional[torch.optim.Optimizer] = None) -> dict[str, Any]:
        """Reads a checkpoint of `save`, of this plan or of another one, on as many ranks as there are now.

        Returns:
            what was saved as `more`.
        """
        self._check_built()
        return load_checkpoint(folder, self.state_dict(), self._names, optimizer, self._agreement)

    def save_safetensors(self, folder: str) -> None:
        """Writes the weights as Hugging Face does: a file of each rank's, and model.safetensors.index.json."""
        is_first_replica = self._pipes.index(self._pipe) == 0
        save_safetensors(folder, self.state_dict(), first_names(self._model), is_first_replica, self._group)

    def load_safetensors(self, folder: str) -> None:
        """Reads of such a folder what this rank's stages have, by names."""
        self._check_built()
        state = self._agreement.on(lambda: read_safetensors(folder, self.state_dict(), first_names(self._model)))[0]
        fill(self.state_dict(), state)
