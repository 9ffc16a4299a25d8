"""What follows: pure decisions, scans and renderings. Opens nothing, awaits nothing, reads no clock."""
