"""Stored studies and traces, as every medium shows them: what must not change by accident.

`make golden` writes what is shown now, and prints what differs; the commit shows it again.
"""
