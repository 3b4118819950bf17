# SPDX-License-Identifier: Apache-2.0
"""The settings of a run, the same on the command line, in Python and on disk."""

from dataclasses import dataclass, field
from typing import Any

from pureward.agents import AGENTS, AgentConfig, D4PGConfig
from pureward.agents.exploration import ExplorationConfig
from pureward.data.replay.replay import ReplayConfig
from pureward.envs import BatchEnv
from pureward.envs.making import check_name, make
from pureward.errors import InputError
from pureward.rewards.config import RewardConfig
from pureward.rewards.methods import METHODS, choose
from pureward.settings import check_settings

_SMALLEST_PRIOR = 1e-6  # float32 may round smaller ones to 0, and 1 − η to 1
_LEAST = {
    0: "warmup_steps evaluate_every snapshot_every probe_every budget_seconds actors",
    1: "worlds env_steps updates_per_step batch log_every checkpoint_every keep_checkpoints "
    "evaluate_episodes probe_frames actor_timeout",
}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of a run."""

    task: str = "walker"
    """A name that `pureward tasks` lists, gym:ID, or MODULE:FUNCTION that makes an environment."""
    distractors: str = ""
    """Shape of the objects beside the task's own: "cube" or "cuboid"; "" for the task's default."""
    frames: str = "render"
    """Frames of a Gymnasium environment: "render", or keys of a dict observation: KEY,KEY."""
    state: str = ""
    """The policy's input in a Gymnasium environment: keys of a dict observation, KEY,KEY; "" for
    all that are not frames."""
    processes: bool = False
    """Whether each world of a Gymnasium environment has a process of its own."""
    method: str = "truth"
    """Where rewards come from: gail-noreg, gail, pugail or nn-pugail from demonstrations; prl,
    prl-ensemble, pnrl, purl or nn-purl from annotations; "truth" is the task's own."""
    demonstrations: str = ""
    """Successful episodes that imitation learns from, in any format that `read_episodes` opens."""
    annotations: str = ""
    """Dataset of episodes with rewards that a reward model learns from."""
    failures: str = ""
    """Dataset of known failures, optional, for PU methods."""
    images: tuple[str, ...] = ()
    """Images of the dataset to stack as channels, if it has several."""
    prior: str = ""
    """η, the share of successes in the agent's experience: a number, or an estimator,
    bbe:FLOOR:CEILING or acc:FLOOR:CEILING; "" for 0.5, or for a method without η."""
    out: str = "runs/latest"
    """The run directory."""
    seed: int = 0
    """Seed of weights, initial states, exploration and sampling."""
    device: str = "auto"
    """"auto" (CUDA if available), "cpu" or "cuda"."""
    worlds: int = 1024
    """Environments that step together."""
    actors: int = 0
    """Processes that step the worlds, each its share of them; 0 steps all in this process."""
    executor: str = "local"
    """Where actors run: "local" for this machine, "ray" for a Ray cluster, or a plugin's."""
    address: str = ""
    """The Ray cluster: "auto" for the one of this machine, or HOST:PORT; "" starts Ray here."""
    actor_timeout: float = 60.0
    """Seconds for one step, after which an actor is replaced."""
    env_steps: int = 10_000_000
    """Env steps to collect: a control step of N worlds is N env steps."""
    budget_seconds: float = 0.0
    """Stop with a checkpoint after this many seconds; 0 for no limit."""
    stop_at_return: float = 0.0
    """Stop at the first evaluation with at least this return; 0 for no early stop."""
    warmup_steps: int = 50_000
    """Env steps with random actions before learning begins."""
    guided: float = 0.0
    """Share of the worlds in which the task's script acts until a random step of each episode."""
    updates_per_step: int = 4
    """Learner updates per control step of all worlds."""
    batch: int = 2048
    """Samples of the replay per update."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """Capacity and windows of the replay."""
    algorithm: str = "d4pg"
    """The RL algorithm, a name in `pureward.AGENTS`."""
    agent: AgentConfig = field(default_factory=D4PGConfig)
    """Settings of the algorithm."""
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    """Noise on the actions while collecting."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Settings of the learned reward; unused by "truth"."""
    log_every: int = 100_000
    """Env steps between lines of training metrics."""
    evaluate_every: int = 500_000
    """Env steps between greedy evaluations; 0 to evaluate at the end only."""
    evaluate_episodes: int = 100
    """Episodes per evaluation."""
    probe_every: int = 100_000
    """Env steps between probes of a learned reward; 0 for none."""
    probe_frames: int = 512
    """Frames per source and probe."""
    checkpoint_every: int = 1_000_000
    """Env steps between checkpoints."""
    keep_checkpoints: int = 2
    """Number of newest checkpoints to keep; the best is kept too."""
    save_replay: bool = True
    """Whether to save the replay in checkpoints; otherwise a resumed run refills it."""
    snapshot_every: int = 500_000
    """Env steps between policy snapshots, which are small and all kept; 0 for none."""
    videos: bool = False
    """Whether to record videos of a few worlds at each evaluation."""

    def __post_init__(self) -> None:
        if isinstance(self.prior, float):
            object.__setattr__(self, "prior", str(self.prior))
        check_settings(self)
        for least, names in _LEAST.items():
            for name in names.split():
                if getattr(self, name) < least:
                    raise InputError(
                        f"{name} must be at least {least}, got {getattr(self, name)}; raise it"
                    )
        if not str(self.out):
            raise InputError("out must be a folder of the run's own, got ''; try runs/mine")
        if not 0 <= self.guided <= 1:
            raise InputError(
                f"guided must be a share of the worlds in [0, 1], got {self.guided}; try 0.25"
            )
        if self.actors and self.guided:
            raise InputError(
                f"guided worlds need actors 0, got guided {self.guided} and {self.actors} actors; "
                "use --guided 0 or --actors 0"
            )
        if self.actors and self.worlds % self.actors:
            fitting = max(1, self.worlds // self.actors) * self.actors
            raise InputError(
                f"actors step the same number of worlds each, got {self.actors} actors and "
                f"{self.worlds} worlds; use --worlds {fitting}"
            )
        if not self.actors and (self.executor != "local" or self.address):
            raise InputError(
                f"executor and address are for actors, got {self.executor!r}, {self.address!r} and "
                "no actors; add --actors 4, or choose the executor local without an address"
            )
        check_name(
            self.task,
            self.distractors,
            scripted=self.guided > 0,
            frames=self.frames,
            state=self.state,
            processes=self.processes,
        )
        wanted = AGENTS[self.algorithm].config
        if not isinstance(self.agent, wanted):
            raise InputError(
                f"agent must be a {wanted.__name__} for the algorithm {self.algorithm}, got "
                f"{type(self.agent).__name__}; pass agent={wanted.__name__}()"
            )
        self._check_reward()
        if self.replay.capacity < self.worlds:
            raise InputError(
                f"the replay must hold a step of each world, got a capacity of "
                f"{self.replay.capacity} for {self.worlds} worlds; raise replay.capacity"
            )
        if self.batch > self.replay.capacity:
            raise InputError(
                f"batch must be at most the replay's capacity of {self.replay.capacity:,} steps, "
                f"got {self.batch:,}; lower it"
            )

    def make_env(self, worlds: int, device: str = "", **options: Any) -> BatchEnv:
        """Make the run's environment.

        Args:
            worlds: how many environments step together.
            device: by default the run's.
            options: of `pureward.make`.
        """
        own: dict[str, Any] = {"distractors": self.distractors, "frames": self.frames}
        own |= {"state": self.state, "processes": self.processes}
        return make(self.task, worlds, device or self.device, **(own | options))

    def _check_reward(self) -> None:
        """Refuse a method without its data, with data it does not use, or with a bad η or V."""
        method = METHODS[self.method]
        for name in ("demonstrations", "annotations"):
            needed = method.positives == name
            if bool(getattr(self, name)) != needed:
                rule = "needs" if needed else "takes no"
                remedy = f"pass --{name} FOLDER" if needed else f"leave --{name} out"
                raise InputError(
                    f"method {self.method!r} {rule} {name}, got {getattr(self, name)!r}; {remedy}"
                )
        failures = bool(self.failures)
        prior = self.prior or None
        chosen = choose(self.method, risk=self.reward.risk, prior=prior, failures=failures)
        for eta in chosen.prior.bounds if chosen else ():
            if not _SMALLEST_PRIOR <= eta <= 1 - _SMALLEST_PRIOR:
                raise InputError(
                    f"prior {self.prior!r} must keep η at least {_SMALLEST_PRIOR:g} from 0 and 1, "
                    f"got {eta:g}; D computes in float32, try 0.5"
                )
        if method.reward == "imitation":
            self.agent.check_returns(self.reward.ceiling, self.replay.discount)

    @property
    def needs_frames(self) -> bool:
        """Whether the reward needs camera images."""
        return METHODS[self.method].reward != "truth"
