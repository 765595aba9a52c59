from tests.present.conftest import plan

__all__ = ["plan"]
