"""Run it: the launchers, which start worlds and measure them."""
