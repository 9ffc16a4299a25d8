"""Steps of chains on other hosts: what the origin makes of an order, and what its taker does."""
