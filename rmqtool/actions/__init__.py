"""ACTIONS on a damaged store: the outcome of each, computed, and the advice that follows from them.

``foresight`` computes outcomes by the model of a broker's start, and by salvage's own plan; ``repairs`` says
what a repair changes; ``verification`` is the way of ``verify``: check, outcomes, advice.
"""
