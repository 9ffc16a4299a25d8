"""The agents' own hooks: the script that they call, and how it is added to and removed from their settings."""
