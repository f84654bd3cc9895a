"""grpo-top: reads a GRPO run's rollouts live, says what is wrong first, and shows the rollout that proves it."""

__version__ = "0.1.0"
