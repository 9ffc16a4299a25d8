"""What tokens cost: the settings' prices, else list prices, which are applied when a sum is shown."""
