# SPDX-License-Identifier: Apache-2.0
"""Worlds in threads, for environments that wait: for a robot, a device or a server."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import iterate


class _InThread(gymnasium.Wrapper):
    """An environment whose calls are all made by one thread."""

    def __init__(self, maker: Callable[[], gymnasium.Env]) -> None:
        # An executor's futures would take three times the CPU time of these queues.
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()
        self._calls.put(maker)
        self._begun = True
        super().__init__(self._end())

    def begin(self, name: str, *values: Any, **named: Any) -> None:
        """Begin a call; the method of that name waits for it and returns its result."""
        if self._begun:  # its result was not read, since another world failed
            self._results.get()
        self._calls.put(partial(getattr(self.env, name), *values, **named))
        self._begun = True

    def step(self, action: Any) -> Any:
        return self._end()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self._end()

    def render(self) -> Any:
        return self._end()

    def close(self) -> None:
        self.begin("close")
        self._end()
        self._calls.put(None)

    def _end(self) -> Any:
        assert self._begun, "ThreadVectorEnv begins all calls"
        result, error = self._results.get()
        self._begun = False
        if error is not None:
            raise error
        return result

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                self._results.put((call(), None))
            except Exception as error:  # of the user's environment, raised where it is awaited
                self._results.put((None, error))


class ThreadVectorEnv(SyncVectorEnv):
    """Gymnasium environments that step at the same time, in a thread each.

    A step takes as long as that of the slowest world, if environments wait or compute without
    Python's global lock. They must not share variables that they change.
    """

    envs: list[_InThread]  # type: ignore[assignment]

    def __init__(self, makers: Iterable[Callable[[], gymnasium.Env]]) -> None:
        """Make the environments.

        Args:
            makers: functions that make one environment each.
        """
        threads = [partial(_InThread, maker) for maker in makers]
        super().__init__(threads, autoreset_mode=AutoresetMode.DISABLED)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Begin new episodes in all worlds, or in those of options["reset_mask"]."""
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + world for world in range(self.num_envs)]
        own = dict(options or {})
        mask = own.pop("reset_mask", [True] * self.num_envs)
        for env, chosen, one in zip(self.envs, mask, seed, strict=True):
            if chosen:
                env.begin("reset", seed=one, options=own)
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        """Step all worlds."""
        for env, action in zip(self.envs, iterate(self.action_space, actions), strict=True):
            env.begin("step", action)
        return super().step(actions)

    def render(self) -> Any:
        """Return a frame of each world."""
        for env in self.envs:
            env.begin("render")
        return super().render()
