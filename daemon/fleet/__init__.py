"""The fleet: the database that hosts share, with its SQL, and the program that reports to it. psycopg is imported nowhere else."""
