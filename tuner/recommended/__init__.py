"""The recommended configuration as files that programs load: built, checked and loaded."""
