"""`python -m grpo_top` is `grpo-top`."""

from grpo_top.cli import main

raise SystemExit(main())
