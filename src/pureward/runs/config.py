# SPDX-License-Identifier: Apache-2.0
"""What a run is: one frozen dataclass, the same on the command line, in Python and on disk."""

from dataclasses import dataclass, field

from pureward.agents import AGENTS, AgentConfig, D4PGConfig
from pureward.agents.exploration import ExplorationConfig
from pureward.data.replay.replay import ReplayConfig
from pureward.envs.making import check_name
from pureward.errors import InputError
from pureward.rewards.config import RewardConfig
from pureward.rewards.methods import METHODS, choose
from pureward.settings import check_settings

# In float32 a share nearer to 0 or 1 may become either.
_SMALLEST_PRIOR = 1e-6


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of a run."""

    task: str = "walker"
    """A name that `pureward tasks` lists."""
    distractors: str = ""
    """Shape of the objects beside the task's own: "cube" or "cuboid"; "" for the task's default."""
    method: str = "truth"
    """Where rewards come from: gail-noreg, gail, pugail or nn-pugail from demonstrations; prl,
    prl-ensemble, pnrl, purl or nn-purl from annotations; "truth" is the task's own."""
    demonstrations: str = ""
    """Dataset that imitation learns from: a folder of `pureward collect` or of Minari."""
    annotations: str = ""
    """Dataset of episodes with rewards that a reward model learns from."""
    failures: str = ""
    """Dataset of known failures, which PU methods may learn from besides."""
    images: tuple[str, ...] = ()
    """Which images of a dataset's observations to take as channels, where it has several."""
    prior: str = ""
    """η, the share of successes in the agent's experience: 0.5, linear:0.1:0.7, bbe or acc; "" is
    the method's own."""
    out: str = "runs/latest"
    """The run directory."""
    seed: int = 0
    """Of weights, first states, exploration and sampling."""
    device: str = "auto"
    """"auto" (CUDA where there is one), "cpu" or "cuda"."""
    worlds: int = 1024
    """Environments that step together."""
    env_steps: int = 10_000_000
    """Control steps to collect, of all worlds together."""
    budget_seconds: float = 0.0
    """Stop with a checkpoint after so long; 0 sets no limit."""
    stop_at_return: float = 0.0
    """Stop at the first evaluation with so high a return; 0 trains to the end."""
    warmup_steps: int = 50_000
    """Env steps before learning begins, acted at random."""
    guided: float = 0.0
    """Share of the worlds where the task's script begins each episode, up to a random step."""
    updates_per_step: int = 4
    """Learner updates with each control step of the batch."""
    batch: int = 2048
    """Windows in an update."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """How much is kept and how windows look."""
    algorithm: str = "d4pg"
    """The RL algorithm, a name in `pureward.AGENTS`."""
    agent: AgentConfig = field(default_factory=D4PGConfig)
    """Settings of the algorithm."""
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    """Noise on the collecting policy's actions."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """The learned reward; "truth" has none."""
    log_every: int = 100_000
    """Env steps between lines of training metrics."""
    evaluate_every: int = 500_000
    """Env steps between greedy evaluations; 0 evaluates at the end only."""
    evaluate_episodes: int = 100
    """Episodes of an evaluation."""
    probe_every: int = 100_000
    """Env steps between probes of a learned reward; 0 for none."""
    probe_frames: int = 512
    """Frames of each source that a probe looks at."""
    checkpoint_every: int = 1_000_000
    """Env steps between checkpoints."""
    keep_checkpoints: int = 2
    """Newest checkpoints kept; the best is kept besides."""
    save_replay: bool = True
    """Whether checkpoints hold the replay; without it a resumed run refills it."""
    snapshot_every: int = 500_000
    """Env steps between kept policies, small, from the whole course of learning; 0 for none."""
    videos: bool = False
    """Film a few worlds at each evaluation."""

    def __post_init__(self) -> None:
        """Refuse what cannot run, before anything is built."""
        if isinstance(self.prior, float):
            object.__setattr__(self, "prior", str(self.prior))
        check_settings(self)
        if not str(self.out):
            raise InputError("out must be a folder of the run's own, got ''; try runs/mine")
        check_name(self.task, self.distractors or None, scripted=self.guided > 0)
        if not 0 <= self.guided <= 1:
            raise InputError(f"guided is a share of the worlds, got {self.guided}; try 0.25")
        wanted = AGENTS[self.algorithm].config
        if not isinstance(self.agent, wanted):
            raise InputError(
                f"the settings of {self.algorithm} are a {wanted.__name__}, got "
                f"{type(self.agent).__name__}; pass agent={wanted.__name__}()"
            )
        self._check_reward()
        least = {
            **dict.fromkeys(("worlds", "env_steps", "updates_per_step", "batch"), 1),
            **dict.fromkeys(("log_every", "checkpoint_every", "keep_checkpoints"), 1),
            **dict.fromkeys(("evaluate_every", "snapshot_every", "warmup_steps"), 0),
            **dict.fromkeys(("evaluate_episodes", "probe_frames"), 1),
            **dict.fromkeys(("probe_every", "budget_seconds"), 0),
        }
        for name, low in least.items():
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} must be at least {low}, got {getattr(self, name)}; raise it"
                )
        if self.replay.capacity < self.worlds:
            raise InputError(
                f"the replay must hold a step of each world, got a capacity of "
                f"{self.replay.capacity} for {self.worlds} worlds; raise replay.capacity"
            )
        if self.batch > self.replay.capacity:
            raise InputError(
                f"a batch is drawn from the replay, which holds {self.replay.capacity:,} steps, "
                f"got a batch of {self.batch:,}; lower batch"
            )

    def _check_reward(self) -> None:
        """Refuse a method without its data, with another's, or with a V too small for it."""
        method = METHODS[self.method]
        for name, needed in (
            ("demonstrations", method.needs_demonstrations),
            ("annotations", method.needs_annotations),
        ):
            if bool(getattr(self, name)) != needed:
                rule = "needs" if needed else "takes no"
                remedy = f"pass --{name} FOLDER" if needed else f"leave --{name} out"
                raise InputError(
                    f"method {self.method!r} {rule} {name}, got {getattr(self, name)!r}; {remedy}"
                )
        if method.reward == "truth":
            return
        chosen = choose(
            self.method,
            risk=self.reward.risk,
            prior=self.prior or None,
            failures=bool(self.failures),
        )
        for eta in (0.5,) if chosen is None else chosen.prior.bounds:
            if not _SMALLEST_PRIOR <= eta <= 1 - _SMALLEST_PRIOR:
                raise InputError(
                    f"prior {self.prior!r} must keep η at least {_SMALLEST_PRIOR:g} from 0 and 1, "
                    f"got {eta:g}; D computes in float32, try 0.5"
                )
        if method.reward == "imitation":
            self.agent.check_returns(self.reward.ceiling, self.replay.discount)

    @property
    def needs_frames(self) -> bool:
        """Whether the reward looks at images."""
        return METHODS[self.method].reward != "truth"
