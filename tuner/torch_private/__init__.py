"""Every private name of PyTorch that the tuner touches, checked before use."""
