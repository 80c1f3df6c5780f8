"""Outcomes of actions on a store."""
