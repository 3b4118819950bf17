# SPDX-License-Identifier: Apache-2.0
"""The card of a dataset: its contents in numbers (JSON) and in images (PNG)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pureward.data.draw import Painter
from pureward.data.episodes import SPLITS, Episode
from pureward.files import write_json
from pureward.picture import contact_sheet, first_camera, save_image

_ROWS, _COLUMNS = 3, 8  # on the sheet: episodes of each split, and instants of each episode


def write_card(
    folder: Path, episodes: Sequence[Episode], painter: Painter, facts: dict[str, Any]
) -> dict[str, Any]:
    """Write FOLDER/card.json and FOLDER/sheet.png; return what the card says of each split."""
    splits = {name: [e for e in episodes if e.split == name] for name in SPLITS}
    described = {name: _describe(chosen) for name, chosen in splits.items() if chosen}
    card = {
        **facts,
        "frame_shape": list(painter.frame_shape or ()),
        "rewards": "of arrival states: reward t belongs to state and frame t + 1",
        "splits": described,
    }
    write_json(folder / "card.json", card)
    rows, images = [], []
    for name, chosen in splits.items():
        for index in np.linspace(0, len(chosen) - 1, min(_ROWS, len(chosen))).astype(int):
            instants = np.linspace(0, len(chosen[index]), _COLUMNS).astype(int).tolist()
            images.append(first_camera(painter.frames(chosen[index], instants)))
            rows.append(f"{name}, return {float(chosen[index].rewards.sum()):.0f}")
    columns = [f"{share:.0%}" for share in np.linspace(0, 1, _COLUMNS)]
    save_image(contact_sheet(np.stack(images), rows, columns), folder / "sheet.png")
    return described


def _describe(episodes: list[Episode]) -> dict[str, Any]:
    returns = torch.stack([episode.rewards.sum() for episode in episodes]).double()
    success = [episode.success for episode in episodes if episode.success is not None]
    is_known = len(success) == len(episodes)
    share = {"success_share": float(torch.cat(success).double().mean())} if is_known else {}
    return {
        "episodes": len(episodes),
        "steps": sum(map(len, episodes)),
        "return_mean": float(returns.mean()),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "with_success": sum(episode.succeeds for episode in episodes),
        **share,
        "policies": dict(Counter(episode.policy for episode in episodes)),
    }
