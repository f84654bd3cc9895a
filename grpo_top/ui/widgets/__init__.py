"""Drawing: pure functions that lay out cells, and the widgets that show them."""
