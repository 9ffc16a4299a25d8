"""The server of the Model Context Protocol: what an agent's tools do, by the same roads as commands and runs."""
