# SPDX-License-Identifier: Apache-2.0
"""Actors as the source of a run's steps.

Actors step worlds of their own, each at its own pace, with the newest weights that they have. The
learner puts their whole episodes into the replay step by step: each of its worlds takes one episode
after another, from whichever actor finished first. So the replay, Algorithm 1 and the loop are the
same as for worlds that step together, a slow actor does not delay others, and an episode of an
actor that dies was never in the replay. It costs a delay: a step reaches the replay about one
episode late.

No queue grows: an actor has at most two unanswered requests, and the learner sends no new ones
while a whole episode waits. Staleness is bounded: an episode that began more than a replay ago, or
four episodes if that is longer, is dropped and counted.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from safetensors.torch import load
from torch import Tensor

import pureward
from pureward.distributed.actors.episodes import (
    Assembly,
    Column,
    Episode,
    pack_columns,
    take_row,
    unpack_columns,
)
from pureward.distributed.actors.hosts import HOSTS
from pureward.distributed.actors.worker import Spec, pack_policy
from pureward.envs import BatchEnv
from pureward.envs.batch import mixed_seed
from pureward.errors import InputError, SimulationError
from pureward.runs.config import RunConfig
from pureward.runs.config_file import to_json
from pureward.types import Observation, Step, find_device

_UNANSWERED = 2  # requests of an actor: it steps on while the learner handles a reply
_PUBLISH_SECONDS = 0.1
_START = 5  # times `actor_timeout`, for the first reply: imports and kernels take long
_COUNTS = ("received", "taken", "dropped_steps", "dropped_episodes", "stale_episodes", "restarts")


@dataclass
class _Actor:
    key: int
    assembly: Assembly
    asked: deque[int]
    """Control steps of the learner at each unanswered request."""
    heard: float
    answered: bool = False


class Actors(BatchEnv):
    """Worlds in actor processes; `take` returns their steps in place of `step`."""

    def __init__(self, config: RunConfig) -> None:
        """Connect to where the actors run; the first `take` starts them."""
        make_host = HOSTS[config.executor]
        cameras = config.needs_frames
        with config.make_env(1, "cpu", cameras=cameras) as one:
            self.name, self.control_step, self.hold = one.name, one.control_step, one.hold
            self.state_size, self.action_size = one.state_size, one.action_size
            self.frame_shape, self.horizon = one.frame_shape, one.horizon
            self.terminates, self.renderer = one.terminates, one.renderer
            self.warning = one.warning
        self.worlds, self.device = config.worlds, find_device(config.device)
        self.elapsed = torch.zeros(self.worlds, dtype=torch.int64)
        self._config = config
        self._host = make_host(config.address, config.actors)
        self._each = config.worlds // config.actors
        self._oldest = max(config.replay.capacity // config.worlds, 4 * self.horizon)
        self._actors: list[_Actor] = []
        self._columns = [Column() for _ in range(self.worlds)]
        self._arrived: Observation | None = None  # what the last row arrived at
        self._waiting: deque[Episode] = deque()
        self.counts = dict.fromkeys(_COUNTS, 0)
        self._rows = self._published = 0
        self._published_at = -1.0
        self._failures = 0  # deaths since the last whole episode
        self._noted = False
        self._stale: list[float] = []
        self._waited, self._bytes, self._read_at = 0.0, 0, time.monotonic()

    def take(
        self,
        updates: int,
        weights: Callable[[], dict[str, Tensor]],
        *,
        at_random: bool,
        over: Callable[[], bool] = lambda: False,
    ) -> tuple[Observation, Tensor, Step] | None:
        """Return the next step of every world: observations, actions, and what followed.

        Args:
            updates: of the learner so far: the version of its weights.
            weights: returns the policy's tensors.
            at_random: whether actors shall act at random from now on.
            over: whether to return None instead of waiting on.
        """
        now = time.monotonic()
        if self._published_at < 0 or (
            updates != self._published and now - self._published_at > _PUBLISH_SECONDS
        ):
            self._host.publish(pack_policy(weights(), updates))
            self._published, self._published_at = updates, now
        while len(self._actors) < self._config.actors:
            self._actors.append(self._start(len(self._actors)))
        self._receive(0.0, at_random)
        while not self._fill(updates):
            if over():
                return None
            began = time.monotonic()
            self._receive(1.0, at_random)
            self._waited += time.monotonic() - began
        self._rows += 1
        self.counts["taken"] += self.worlds
        row = take_row(self._columns, self.device, self._arrived)
        self._arrived = row[2].final_obs
        return row

    def left(self) -> dict[str, int]:
        """Return the steps that were received and are neither taken nor dropped, by where."""
        return {
            "open": sum(actor.assembly.steps() for actor in self._actors),
            "waiting": sum(map(len, self._waiting)),
            "columns": sum(column.left() for column in self._columns),
        }

    def read(self) -> dict[str, float]:
        """Return metrics; means are since the last call, counts since the run began."""
        now = time.monotonic()
        seconds, self._read_at = max(now - self._read_at, 1e-9), now
        values = {f"actors/{name}": float(self.counts[name]) for name in _COUNTS[2:]}
        values |= {
            "actors/waited": self._waited / seconds,
            "actors/bytes_per_second": self._bytes / seconds,
        }
        if self._stale:
            values["actors/staleness"] = sum(self._stale) / len(self._stale)
            values["actors/staleness_max"] = max(self._stale)
        self._stale, self._waited, self._bytes = [], 0.0, 0
        return values

    def seed(self, seed: int) -> None:
        """Do nothing: every actor has its own seed, from that of the run."""

    def reset(self) -> Observation:
        """Return zeros: nothing acts on observations here."""
        return Observation(state=torch.zeros(self.worlds, self.state_size), frames=None)

    def step(self, action: Tensor) -> Step:
        """Raise InputError: actors choose their actions themselves."""
        raise InputError("actors choose their actions themselves; call take")

    def close(self) -> None:
        """End the actors."""
        self._host.close()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the rest of the episodes that are partly in the replay, and the counts.

        Other steps are lost in a resume: they count as dropped.
        """
        lost, counts = self.left(), dict(self.counts)
        counts["dropped_steps"] += lost["open"] + lost["waiting"]
        open_episodes = sum(actor.assembly.episodes() for actor in self._actors)
        counts["dropped_episodes"] += open_episodes + len(self._waiting)
        return {
            **pack_columns(self._columns),
            "counts": torch.tensor([counts[name] for name in _COUNTS]),
            "rows": torch.tensor(self._rows),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> Observation:
        """Continue with the rest of those episodes, and with new actors."""
        frames = {} if self.frame_shape is None else {"frames": (torch.uint8, self.frame_shape)}
        kinds: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
            "state": (torch.float32, (self.state_size,)),
            "action": (torch.float32, (self.action_size,)),
            "reward": (torch.float32, ()),
            "success": (torch.bool, ()),
            **frames,
        }
        self._columns, self._arrived = unpack_columns(saved, kinds), None
        self.counts = dict(zip(_COUNTS, saved["counts"].tolist(), strict=True))
        self._rows = int(saved["rows"])
        return self.reset()

    def _start(self, index: int) -> _Actor:
        # Not a seed that was used before, here or before a resume: episodes would repeat.
        numbers = (self._config.seed, index, self._rows, self.counts["restarts"])
        spec = Spec(
            version=pureward.__version__,
            config=json.dumps(to_json(self._config)),
            worlds=self._each,
            seed=mixed_seed(*numbers),
        )
        assembly = Assembly(self._each)
        return _Actor(self._host.start(spec), assembly, deque(), time.monotonic())

    def _receive(self, seconds: float, at_random: bool) -> None:
        """Ask actors that may go on, handle replies, and replace actors that died or hang.

        Waits at most so many seconds for a reply.
        """
        for actor in self._actors:
            while not self._waiting and len(actor.asked) < _UNANSWERED:
                actor.heard = actor.heard if actor.asked else time.monotonic()
                actor.asked.append(self._rows)
                self._host.ask(actor.key, at_random)
        by_key = {actor.key: actor for actor in self._actors}
        for key, reply in self._host.replies(seconds):
            if key not in by_key:  # it was replaced by an earlier reply of this call
                continue
            actor = by_key[key]
            tensors = {} if reply is None else load(reply)
            if "version" not in tensors:
                text = bytes(tensors.get("error", torch.tensor([])).byte().tolist()).decode()
                if tensors and bool(tensors["fatal"]):
                    raise InputError(f"an actor could not start: {text}")
                del by_key[key]
                self._replace(actor, text or "its process ended")
                continue
            actor.heard, actor.answered = time.monotonic(), True
            self._bytes += len(reply or b"")
            self.counts["received"] += tensors["reward"].numel()
            whole = actor.assembly.add(tensors, actor.asked.popleft())
            self._waiting.extend(whole)
            self._failures = 0 if whole else self._failures
        for actor in list(self._actors):
            patience = self._config.actor_timeout * (1 if actor.answered else _START)
            if actor.asked and time.monotonic() - actor.heard > patience:
                self._replace(actor, f"it was silent for {patience:g} s")

    def _fill(self, updates: int) -> bool:
        """Give every world that needs one an episode; return whether all have one."""
        for column in self._columns:
            while not column.left():
                if not self._waiting:
                    return False
                episode = self._waiting.popleft()
                if self._rows - episode.began > self._oldest:
                    self.counts["stale_episodes"] += 1
                    self.counts["dropped_steps"] += len(episode)
                    continue
                column.episode, column.at = episode, 0
                self._stale.append(updates - episode.versions / len(episode))
                self._note_delay((self._rows - episode.began) * self.worlds)
        return True

    def _note_delay(self, late: int) -> None:
        """Print once if steps are old when they reach the replay: it holds no recent policy."""
        capacity = self._config.replay.capacity
        if late > capacity // 2 and not self._noted:
            self._noted = True
            print(
                f"note: actors' steps reach the replay {late:,} steps late, and the replay holds "
                f"only {capacity:,} steps; if the return does not rise, use fewer worlds",
                flush=True,
            )

    def _replace(self, actor: _Actor, reason: str) -> None:
        """Drop the open episodes of an actor and start another in its place."""
        self.counts["restarts"] += 1
        self.counts["dropped_steps"] += actor.assembly.steps()
        self.counts["dropped_episodes"] += actor.assembly.episodes()
        self._host.kill(actor.key)
        self._failures += 1
        if self._failures > 3 + 3 * self._config.actors:
            raise SimulationError(
                f"actors die before they end an episode ({reason}); try the environment without "
                "actors, and in a script call train under if __name__ == '__main__'"
            )
        index = self._actors.index(actor)
        print(f"actor {index} is replaced ({reason})", flush=True)
        self._actors[index] = self._start(index)
