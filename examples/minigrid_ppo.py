# SPDX-License-Identifier: Apache-2.0
"""MiniGrid with PPO of Stable-Baselines3 on a reward learned from images of solved episodes.

    pip install 'pureward[plot,cli,sb3]' minigrid
    python examples/minigrid_ppo.py --out runs/minigrid

An agent turns and moves in a room of 3×3 cells; the episode terminates at the green cell, or after
100 steps. Demonstrations come from a planner (breadth-first search). The policy sees MiniGrid's
own observation, the reward sees images only. Rows: `truth` is PPO on MiniGrid's own reward; the
others learn a reward by `nn-pugail` and `gail`, with absorbing states (`OnlineReward(horizon=…)`)
and without. Every finished run is added to `curves.json`; runs that are in it are skipped.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import torch
import tyro
from curves import Curves
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.env_util import make_vec_env

from pureward import OnlineReward
from pureward.hooks.stable_baselines3 import RecordFrames, RewardCallback, RewardVecEnv

HORIZON = 100
DISCOUNT = 0.95
LEFT, RIGHT, FORWARD = 0, 1, 2
ROWS = {
    "truth": ("truth", False),
    "nn-pugail": ("nn-pugail", True),
    "nn-pugail, no absorbing states": ("nn-pugail", False),
    "gail": ("gail", True),
    "gail, no absorbing states": ("gail", False),
}


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    rows: tuple[str, ...] = tuple(ROWS)
    """Rows of the figure: a method, with or without absorbing states."""
    seeds: int = 3
    """Runs of each row."""
    steps: int = 10_000
    """Environment steps of a run."""
    demonstrations: int = 30
    """Episodes of the planner."""
    every: int = 512
    """Steps between two calls of `learn`."""
    updates: int = 10
    """Updates of D in each of them."""
    episodes: int = 50
    """Episodes of an evaluation."""
    out: Path = Path("runs/minigrid")
    """Folder for curves.json, curves.png and film.mp4."""


class View(gymnasium.ObservationWrapper):
    """The 7×7 cells that the agent sees, as a flat vector."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (7 * 7 * 3,), np.float32)

    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the cells' kinds, colours and states."""
        return (observation["image"] / 10.0).astype(np.float32).reshape(-1)


def make_env() -> gymnasium.Env:
    """Make one environment; images of 8×8 pixels a cell."""
    room = gymnasium.make(
        "MiniGrid-Empty-Random-5x5-v0", render_mode="rgb_array", tile_size=8, highlight=False
    )
    return View(room)


def plan(env: gymnasium.Env) -> list[int]:
    """Return the shortest actions from the agent to the goal, by breadth-first search."""
    room: Any = env.unwrapped
    moves = [(1, 0), (0, 1), (-1, 0), (0, -1)]  # by direction
    start = (*map(int, room.agent_pos), int(room.agent_dir))
    queue, came = deque([start]), {start: []}
    while queue:
        x, y, way = here = queue.popleft()
        cell = room.grid.get(x, y)
        if cell is not None and cell.type == "goal":
            return came[here]
        ahead = (x + moves[way][0], y + moves[way][1])
        block = room.grid.get(*ahead)
        free = ahead if block is None or block.can_overlap() else (x, y)
        after = {LEFT: (x, y, (way - 1) % 4), RIGHT: (x, y, (way + 1) % 4), FORWARD: (*free, way)}
        for action, there in after.items():
            if there not in came:
                came[there] = [*came[here], action]
                queue.append(there)
    raise AssertionError("an empty room has a path")


def demonstrate(episodes: int) -> list[np.ndarray]:
    """Return the frames of each of the planner's episodes, (T + 1, height, width, 3)."""
    env, found = make_env(), []
    for seed in range(10_000, 100_000):
        env.reset(seed=seed)
        frames = [env.render()]
        for action in plan(env):
            env.step(action)
            frames.append(env.render())
        if len(frames) > 1:  # the agent may start at the goal's side
            found.append(np.stack(frames))
        if len(found) == episodes:
            break
    return found


def play(model: PPO, env: gymnasium.Env, seed: int) -> Iterator[float]:
    """Yield the rewards of an episode, after 0 for its first state."""
    observation, _ = env.reset(seed=seed)
    yield 0.0
    over = False
    while not over:
        action, _ = model.predict(observation)
        observation, reward, ended, cut, _ = env.step(int(action))
        over = ended or cut
        yield float(reward)


def evaluate(model: PPO, episodes: int) -> dict[str, float]:
    """Return the share of episodes that reach the goal, and the mean return."""
    env = make_env()
    returns = [sum(play(model, env, seed)) for seed in range(episodes)]
    return {"success": float(np.mean(np.array(returns) > 0)), "return": float(np.mean(returns))}


class Evaluations(BaseCallback):
    """Evaluates the policy eight times during a run."""

    def __init__(self, steps: int, episodes: int) -> None:
        super().__init__()
        self._every, self._episodes = max(1, steps // 8), episodes
        self.points: list[dict[str, float]] = []

    def _on_training_start(self) -> None:
        self._measure()

    def _on_step(self) -> bool:
        if self.num_timesteps >= len(self.points) * self._every:
            self._measure()
        return True

    def _measure(self) -> None:
        measured = evaluate(self.model, self._episodes)  # type: ignore[arg-type]
        self.points.append({"step": self.num_timesteps, **measured})


def run(row: str, seed: int, args: Args) -> tuple[PPO, dict[str, Any]]:
    """Train PPO; return the policy and its measurements."""
    method, absorbing = ROWS[row]
    evaluations = Evaluations(args.steps, args.episodes)
    callbacks: list[BaseCallback] = [evaluations]
    wrapper = None if method == "truth" else RecordFrames
    venv = make_vec_env(make_env, n_envs=8, seed=seed, wrapper_class=wrapper)
    if method != "truth":
        reward = OnlineReward(
            demonstrate(args.demonstrations),
            method=method,
            horizon=HORIZON if absorbing else None,
            device="cpu",
            seed=seed,
        )
        venv = RewardVecEnv(venv, reward, frames="render", discount=DISCOUNT)
        learning = RewardCallback(reward, every=args.every, updates=args.updates)
        callbacks.append(learning)
    model = PPO(
        "MlpPolicy",
        venv,
        n_steps=64,
        batch_size=128,
        learning_rate=1e-3,
        gamma=DISCOUNT,
        ent_coef=0.01,
        device="cpu",
        seed=seed,
    )
    model.learn(args.steps, callback=CallbackList(callbacks))
    facts: dict[str, Any] = {"points": evaluations.points}
    if method != "truth":
        facts["verdict"] = str(learning.verdict)
    venv.close()
    return model, facts


def film(model: PPO, path: Path) -> None:
    """Write a film of the policy in several episodes."""
    from pureward.picture import mosaic, video

    env = make_env()
    episodes = [[env.render() for _ in islice(play(model, env, seed), 40)] for seed in range(9)]
    longest = max(map(len, episodes))
    with video(path, 5) as write:
        for t in range(longest):
            write(mosaic(np.stack([e[min(t, len(e) - 1)] for e in episodes]), scale=3))


def main(args: Args) -> None:
    """Run what is missing, draw the figure and the film."""
    torch.set_num_threads(1)
    curves = Curves(args.out / "curves.json", about="MiniGrid-Empty-Random-5x5-v0, SB3's PPO")
    for seed in range(args.seeds):
        for row in args.rows:
            if curves.has(row, seed):
                continue
            model, facts = run(row, seed, args)
            curves.add(row, seed, **facts)
            print(row, seed, facts["points"][-1], facts.get("verdict", ""), flush=True)
            if row == "nn-pugail" and seed == 0:
                film(model, args.out / "film.mp4")
    curves.draw(args.out / "curves.png", {"success": "share solved", "return": "true return"})


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
