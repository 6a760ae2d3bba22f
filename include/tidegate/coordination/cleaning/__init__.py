"""Delete unreferenced files, report retained files and their size, and verify them."""
