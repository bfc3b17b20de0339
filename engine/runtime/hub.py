"""Models of the Hugging Face hub, through its own client, which keeps them in its own cache."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import DownloadError
from .progress import Progress

# Everything that loading reads; safetensors before PyTorch's files, which are fetched only where there is nothing else.
_DESCRIPTION = ("*.json", "*.jinja")
_SAFE, _TORCH = "*.safetensors", "pytorch_model*.bin"
_STAGE = "download from the hub"


def fetch_from_hub(name: str, progress: Progress) -> Path:
    """The folder of `organisation/name`, or `organisation/name@revision`, fetched if it is not in the hub's cache.

    Raises DownloadError: no client, no network, no such model, or one that needs an agreement first.
    """
    repository, _, revision = name.partition("@")
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", repository, re.ASCII):
        raise DownloadError(f"HF://{name}: that is no name of a model", remedy="write HF://organisation/name")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise DownloadError(
            f"HF://{name}: huggingface_hub is not installed", remedy="pip install huggingface_hub"
        ) from error
    progress(_STAGE, 0.0)
    try:
        wanted = [*_DESCRIPTION, _SAFE]
        folder = Path(snapshot_download(repository, revision=revision or None, allow_patterns=wanted))
        if not any(folder.glob(_SAFE)):
            wanted = [*_DESCRIPTION, _TORCH]
            folder = Path(snapshot_download(repository, revision=revision or None, allow_patterns=wanted))
    except Exception as error:  # the client's errors and those of what it fetches with have no common base
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise DownloadError(
            f"HF://{name}: it could not be fetched: {lines[0] if lines else type(error).__name__}",
            remedy="check the name, the connection and (for gated models) `hf auth login`; "
            "or fetch it elsewhere and give the folder",
        ) from error
    progress(_STAGE, 1.0)
    return folder
