"""Two checkouts side by side: the same commands on the same stores, and all differences of the results."""
