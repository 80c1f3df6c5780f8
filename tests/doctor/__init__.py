"""The doctor: copies, what brokers take, choices and what they mean."""
