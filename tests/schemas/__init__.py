"""Outputs held against the published JSON Schemas."""
