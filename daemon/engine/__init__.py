"""The engine: events go in once, their jobs are decided and completed once, and what was decided is carried out."""
