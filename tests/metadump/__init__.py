"""Skeletons of stores: the same findings at the same places, and nothing of what was sent."""
