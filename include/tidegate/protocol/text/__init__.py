"""Text that is stored or shown: durations, causes of errors, masked secrets, whole sentences."""
