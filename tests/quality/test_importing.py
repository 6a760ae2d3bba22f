"""Modules that are left out when Great Expectations is imported can still be imported later."""

import subprocess
import sys

PROGRAM = """
import sys
from tidegate.quality.importing import load_great_expectations

gx = load_great_expectations()
assert gx is load_great_expectations()
loaded = {"scipy.stats", "altair", "boto3", "botocore"} & set(sys.modules)
assert not loaded, loaded

from great_expectations.expectations.core import expect_column_kl_divergence_to_be_less_than as uses

assert "scipy.stats" not in sys.modules
assert uses.stats.norm.cdf(0) == 0.5, "what stood in for it has become it"
import altair, boto3, scipy.stats

assert (altair.Chart, boto3.client, scipy.stats.norm.cdf)
"""


def test_what_great_expectations_rarely_needs_is_imported_when_it_is_used():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
