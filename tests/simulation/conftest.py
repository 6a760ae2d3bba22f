"""Puts the simulator and its mutations where the tests of this folder, and nobody else, can import them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
