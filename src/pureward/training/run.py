# SPDX-License-Identifier: Apache-2.0
"""The state of a run between two control steps, and what it writes to its directory."""

import math
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor

from pureward.capture import Beside
from pureward.distributed.actors import Actors
from pureward.envs.batch import mixed_seed
from pureward.errors import LARGEST, InputError, lacks_memory, warn
from pureward.progress import Progress
from pureward.rewards.regression import Pass
from pureward.runs import checkpoint
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory, kept_steps, step_name, step_of
from pureward.runs.log import MetricsLog
from pureward.runs.policy import write_snapshot
from pureward.training.evaluate import evaluate, film
from pureward.training.fitting import fit_until_stopped
from pureward.training.learner import Learner
from pureward.training.restored import check_tensors, read_facts
from pureward.training.stopping import StopSignal
from pureward.training.stopwatch import Stopwatch
from pureward.training.truth import Truth

_FILMED_WORLDS = 4
# Added to the run's seed; every evaluation of a run starts from the same states.
_EVALUATION_SEED = 1_000_003


class Run:
    """Environment, learner, clock, counters and log of a run."""

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        saved: checkpoint.Checkpoint | None,
        opened: ExitStack,
    ) -> None:
        """Build a run.

        Args:
            config: settings.
            directory: of the run, locked by this process.
            saved: the checkpoint to resume from; None for a new run.
            opened: closes the environments at the end.
        """
        self.config = config
        self.directory = directory
        cameras = config.needs_frames
        self.actors = Actors(config) if config.actors else None
        env = self.actors or config.make_env(
            config.worlds, seed=config.seed, cameras=cameras, stagger=True
        )
        self.env = opened.enter_context(env)
        if self.env.warning:
            warn(self.env.warning)
        self.learner = Learner(config, self.env)
        self.reward = self.learner.reward
        env = config.make_env(config.evaluate_episodes, cameras=cameras)
        self.eval_env = opened.enter_context(env)
        self.obs = self.env.reset()
        self.is_new = saved is None
        self.control_steps = 0
        self.clock = Stopwatch(self.env.device)
        # On CUDA the worlds are simulated while the learner learns. Evaluations use it too: their
        # small kernels go before those of other runs.
        on_cuda = self.env.device.type == "cuda" and self.actors is None
        self._beside = Beside(self.env.device) if on_cuda else None
        self.evaluation: dict[str, float] = {}
        self.evaluated_at = self.probed_at = -1
        self.truth = Truth(
            self.learner.replay,
            staggered=self.env.stagger,
            has_memory=self.learner.memory is not None,
        )
        metrics_bytes = self._restore(saved) if saved else 0
        self.log = MetricsLog(
            directory.metrics, directory.events, offset=metrics_bytes, step=self.env_steps
        )

    @property
    def env_steps(self) -> int:
        """Steps of all worlds together."""
        return self.control_steps * self.config.worlds

    def finished(self) -> bool:
        """Whether the run has its steps, or the return at which it may stop."""
        goal = self.config.stop_at_return
        good_enough = bool(goal) and self.evaluation.get("return", -math.inf) >= goal
        return good_enough or self.env_steps >= self.config.env_steps

    def step(self, over: Callable[[], bool] = lambda: False) -> bool:
        """Take one control step in every world, and the updates that go with it.

        Args:
            over: whether to stop while actors have no whole episode yet, which may take long.

        Returns:
            Whether the step was taken.
        """
        warm = self.env_steps >= self.config.warmup_steps
        if self.actors:
            policy, updates = self.learner.agent.policy_tensors, self.learner.updates
            taken = self.actors.take(updates, policy, at_random=not warm, over=over)
            if taken is None:
                return False
            self.obs, action, step = taken
            self.learner.agent.observe(self.obs.state)
        else:
            action = self.learner.act(self.obs.state, at_random=not warm)
            with self._beside or nullcontext():
                step = self.env.step(action)
        if self._beside:  # it learns from earlier steps meanwhile
            self._learn()
            self._beside.wait()
        self.learner.add(self.obs, action, step)
        self.obs = step.obs
        self.truth.add(step)
        self.control_steps += 1
        if not self._beside:
            self._learn()
        return True

    def _learn(self) -> None:
        """Make the updates of one control step, once there are enough steps in the replay."""
        # Steps in the replay: a run resumed without its replay fills it again before it learns.
        if self.learner.replay.steps_added >= self.config.warmup_steps:
            self.learner.learn()
        else:
            self.learner.learn_reward()

    def every(self, interval: int, call: Callable[[], Any]) -> None:
        """Call if the last step crossed a multiple of `interval` env steps; 0 for never."""
        before = self.env_steps - self.config.worlds
        if interval and self.env_steps // interval > before // interval:
            with self.clock.paused():
                call()

    def fit_reward_model(self, stop: StopSignal) -> None:
        """Fit the reward model if the method has one; return early if a stop is requested."""
        if self.reward is None or self.reward.model is None:
            return
        report = fit_until_stopped(self.reward.model, self.reward.fit, stop, self._write_pass)
        if report is None:
            return
        torch.cuda.empty_cache()  # other processes may need the memory; no effect on a CPU
        error = report.held_out_error
        held_out = "" if error is None else f", {error:.4f} on held-out episodes"
        print(f"reward model: mean squared error {report.train_error:.4f}{held_out}")

    def _write_pass(self, done: Pass) -> None:
        values = {"member": done.member, "epoch": done.epoch, "error": done.fitting_error}
        held_out = {} if done.held_out_error is None else {"held_out": done.held_out_error}
        self._write("fit", values | held_out)

    def probe(self, *, apart: bool = False) -> None:
        """Write P(success) and predictions on known kinds of frames.

        Args:
            apart: whether later random numbers are the same as without this probe.
        """
        if self.reward is not None:
            solved = self.truth.solved_frames(self.config.probe_frames)
            values = self.reward.probe(solved, apart=apart)
            self._write("probe", values | {"seconds": self.clock.read()})
            self.probed_at = self.env_steps

    def write_metrics(self) -> None:
        """Update η and write the means of the metrics since the last call."""
        values = self.learner.read_metrics()
        values |= self.reward.update_prior() if self.reward else {}
        values |= self.truth.read() | (self.actors.read() if self.actors else {})
        values |= {"updates": self.learner.updates, "seconds": self.clock.read()}
        self._write("train", values)

    def evaluate(self, bar: Progress) -> None:
        """Evaluate the greedy policy, write the result, and film it if the run has videos."""
        greedy, seconds = self.learner.agent.act, self.clock.read()
        learned = self.reward.learned if self.reward else None
        with self._beside or nullcontext():
            result = evaluate(
                self.eval_env,
                greedy,
                seed=min(self.config.seed + _EVALUATION_SEED, LARGEST - 1),
                reward=learned,
                frame_stack=self.config.replay.frame_stack,
            )
        if self._beside:
            self._beside.wait()
        self.evaluation = result.summary()
        if learned is not None and learned.members:
            self.evaluation |= result.reward_error(learned.zero)
        self.evaluated_at = self.env_steps
        values = self.evaluation | {"updates": self.learner.updates, "seconds": seconds}
        self._write("eval", values)
        bar.set_postfix_str(f"return {self.evaluation['return']:.1f}")
        if self.config.videos:
            self.directory.check_place()
            path = self.directory.videos / f"{step_name(self.env_steps)}.mp4"
            with self.config.make_env(_FILMED_WORLDS, cameras=True) as env:
                film(env, greedy, path, seed=self.config.seed)

    def write_snapshot(self) -> None:
        """Write the policy."""
        self.directory.check_place()
        write_snapshot(self.directory.snapshots, self.env_steps, self.learner.agent)

    def write_checkpoint(self) -> None:
        """Write a checkpoint and the reward; raises if a weight or a world is not finite."""
        self.directory.check_place()
        self.learner.check()
        self.env.check()
        facts = {
            "control_steps": self.control_steps,
            "seconds": self.clock.read(),
            "evaluation": self.evaluation,
            "evaluated_at": self.evaluated_at,
            "probed_at": self.probed_at,
            "metrics_bytes": self.log.offset(),
            **self.truth.facts(),
        }
        folder = self.directory.checkpoints
        checkpoint.write(folder, self.env_steps, self._tensors(), facts)
        if self.reward:
            self.reward.save(self.directory.reward)
        checkpoint.prune(folder, self.config.keep_checkpoints)

    def _write(self, kind: str, values: dict[str, float]) -> None:
        self.directory.check_place()
        self.log.write(kind, self.env_steps, values)

    def _tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint, by name."""
        return {
            **checkpoint.flattened("learner", self.learner.state_dict()),
            **checkpoint.flattened("env", self.env.state_dict()),
            **self.truth.tensors(with_replay=self.config.save_replay),
        }

    def _restore(self, saved: checkpoint.Checkpoint) -> int:
        """Load a checkpoint; return the size that the metrics file had, in bytes."""
        check_tensors(saved, self._tensors(), self.learner, self.env)
        tensors = saved.tensors
        try:
            facts = read_facts(saved, self.config.worlds)
            self.learner.load_state_dict(checkpoint.under("learner", tensors))
            starts_anew = not self.env.state_dict()  # it cannot continue its episodes
            if starts_anew:  # not from the seed of the run: its first episodes would begin again
                self.env.seed(mixed_seed(self.config.seed, facts["control_steps"]))
            self.obs = self.env.load_state_dict(checkpoint.under("env", tensors))
            self.truth.load_tensors(tensors, facts)
            if starts_anew:
                self.learner.end_episodes()
                self.truth.end_episodes()
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            if lacks_memory(error):
                raise
            raise InputError(
                f"checkpoint {saved.path} does not fit the run's settings ({error}); restore the "
                "config.json it was written with, or delete it to resume from an older one"
            ) from error
        self.control_steps, self.evaluated_at = facts["control_steps"], facts["evaluated_at"]
        self.probed_at = facts["probed_at"]
        self.evaluation = dict(facts["evaluation"])
        self.clock = Stopwatch(self.env.device, facts["seconds"])
        # Delete policies and videos from after the checkpoint: the resumed run may differ.
        for folder in (self.directory.snapshots, self.directory.videos):
            for path in kept_steps(folder):
                if (step_of(path) or 0) > self.env_steps:
                    path.unlink()
        return facts["metrics_bytes"]
