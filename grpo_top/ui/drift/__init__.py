"""What the drift screen shows: how each sampler samples, what differs, since when, and how it got there."""
