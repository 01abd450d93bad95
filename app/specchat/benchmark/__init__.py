"""`specchat bench`: how fast this pair is on this machine, side by side and in turn."""
