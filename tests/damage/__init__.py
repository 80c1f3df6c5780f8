"""Damage as data: places of a store by name, edits of a copy, cases in ``fixtures/damage``."""
