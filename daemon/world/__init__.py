"""The machine as the daemon uses it: clock, files, processes, randomness.

Everything else is ordinary code, so that a whole daemon runs in one process and in virtual time
under `tests/simulation/`. Calls are plain and blocking; the worker makes them in bounded threads.
"""
