"""`grpo-top report`: a Snapshot as one file to pass on, HTML or Markdown, which opens without a network.

`content` says what is in it as a list of blocks; `html` and `markdown` write blocks down and know no run.
"""
