"""Text that is stored or shown: durations, causes of errors, secrets taken out, whole sentences."""
