"""The server of the Model Context Protocol: what an agent's tools do takes the same paths as commands and runs."""
