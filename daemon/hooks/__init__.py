"""The agents' own hooks: the script that they call, and how it gets into their settings and out of them."""
