# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""A user's program. pyright reads it strictly (`make lint`); nothing runs it."""

from collections.abc import Callable
from pathlib import Path
from typing import assert_type

import numpy as np
import torch
from torch import Tensor

import pureward
from pureward.rewards.methods import Method

frames = np.zeros((4, 64, 64, 3), np.uint8)
ended = np.zeros(4, np.bool_)

online = pureward.OnlineReward([frames, frames], method="nn-pugail", prior=0.5)
online.observe(frames, ended)
assert_type(online.learn(2), dict[str, float])
assert_type(online(frames), Tensor)

reward = pureward.load_reward("runs/mine")
assert_type(reward(torch.zeros(4, 3, 64, 64, dtype=torch.uint8)), Tensor)
assert_type(pureward.risk.nnpu(torch.zeros(2), torch.zeros(2), prior=0.5).objective, Tensor)

config = pureward.preset("walker", demonstrations="data/demos", out="runs/mine")
assert_type(pureward.train(config).path, Path)
assert_type(pureward.evaluate("runs/mine"), dict[str, float])
assert_type(pureward.probe("runs/mine", "evidence").files, list[Path])
assert_type(pureward.collect("walker", "runs/mine", "data/mine").path, Path)
policy = pureward.load_policy("runs/mine", "runs/mine/snapshots/step-000000000000.safetensors")
assert_type(policy.act, Callable[[Tensor], Tensor])

episodes = pureward.read_episodes([(frames, np.zeros(3, np.float32))])
assert_type(episodes[0].rewards, Tensor)
fitted = pureward.fit(episodes, demonstrations="demos.mp4", out="rewards/mine")
assert_type(fitted.reward(), pureward.LearnedReward)
assert_type(pureward.check(episodes, against="logs").facts, list[str])
assert_type(pureward.METHODS.get("gail"), Method | None)

pureward.no_such_name()  # pyright: ignore
