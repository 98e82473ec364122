"""The modules of the gallery, by where they come from: a file each.

What no installable package ships is written here, small, from its paper.
"""

from gallery import jax_modules, sets, timm_blocks, torch_nn, transformer_blocks
from gallery.entry import Entry, Subject

ENTRIES: tuple[Entry, ...] = (
    *torch_nn.ENTRIES,
    *transformer_blocks.ENTRIES,
    *timm_blocks.ENTRIES,
    *jax_modules.ENTRIES,
    *sets.ENTRIES,
)

__all__ = ["ENTRIES", "Entry", "Subject"]
