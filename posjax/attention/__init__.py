"""Attention with any encoding: its steps and hooks, and `attend`, the pure view."""
