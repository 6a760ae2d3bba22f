"""Restores, savepoints, forks, imports and exports, plans of changes, and recovery from a lost database."""
