"""Recovery: restores, savepoints and their documents, forks, imports, changed definitions, a lost database."""
