"""The options of the agent that only its constructor takes, under a private name.

Standard library only: it is imported in the middle of `import torch`, too.
"""

PRIVATE_KEYWORDS = {"transports": "_transports", "channels": "_channels"}
"""The constructor's keyword by the name of the knob."""
