"""What the browser and the replay show, as rows of text: pure functions from a View and a selection."""
