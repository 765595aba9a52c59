"""How long hypothesis may take: as long as the machine needs, and less in `make quick`."""

from hypothesis import settings

# A machine that does something else for a moment is no failure of a test.
settings.register_profile("default", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("default")
