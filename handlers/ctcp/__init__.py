"""The CTCP artifact contracts A to J: what each asks of a run directory."""
