"""Every private name of PyTorch that the tuner uses, checked before use."""
