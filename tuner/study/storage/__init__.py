"""The study in its Optuna storage. The only importer of Optuna."""
