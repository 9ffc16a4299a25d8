"""What follows from events: pure decisions, scans and renderings. It opens nothing, awaits nothing, reads no clock."""
