"""Imported by each process of Python that finds this directory on PYTHONPATH: its wall clock is wrong by so many seconds."""

import os
import time

import time_machine

time_machine.travel(time.time() + float(os.environ["TESTS_CLOCK_IS_WRONG_BY"]), tick=True).start()
