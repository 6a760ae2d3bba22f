"""The way back: restores, savepoints, forks, imports and exports, plans of changes, a lost database."""
