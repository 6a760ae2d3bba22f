"""What the demonstration delivers is the real data, all of it, once."""

import csv

import pytest

from flights.data import Deliveries
from flights.run import BATCHES


@pytest.fixture(scope="module")
def deliveries(tmp_path_factory):
    return Deliveries(tmp_path_factory.mktemp("landing"))


def rows(file):
    return list(csv.DictReader(file.read_text().splitlines()))


def test_the_year_is_complete(deliveries):
    flights, weather = deliveries.days("flights"), deliveries.days("weather")
    assert (len(flights), deliveries.rows("flights", flights)) == (365, 336_776)
    assert (len(weather), deliveries.rows("weather", weather)) == (364, 26_115)


def test_the_batches_are_the_year_each_day_once(deliveries):
    for source in ("flights", "weather"):
        ranges = [getattr(batch, source) for batch in BATCHES]
        assert [day for first, end in ranges for day in range(first, end)] == list(range(len(deliveries.days(source))))


def test_hours_meet_their_weather_in_an_earlier_and_in_a_later_batch(deliveries):
    flights = [deliveries.days("flights")[batch.flights[1] - 1] for batch in BATCHES]
    weather = [deliveries.days("weather")[batch.weather[1] - 1] for batch in BATCHES]
    assert flights[0] > weather[0]
    assert flights[1] < weather[1]


def test_a_mistaken_file_differs_in_the_delays_only(deliveries):
    day = deliveries.days("flights")[40]
    deliveries.deliver("flights", [day])
    right = rows(deliveries.landing / "flights" / f"flights-{day}.csv")
    wrong = rows(deliveries.deliver_in_seconds(day))
    delays = [(before.pop("dep_delay"), after.pop("dep_delay")) for before, after in zip(right, wrong, strict=True)]
    assert right == wrong
    assert all(after == (before if before == "NA" else str(60 * int(before))) for before, after in delays)
    assert max(int(after) for _, after in delays if after != "NA") > 24 * 60


def test_nothing_unfinished_is_left_next_to_the_files(deliveries):
    deliveries.deliver("weather", deliveries.days("weather")[:3])
    names = sorted(path.name for path in (deliveries.landing / "weather").iterdir())
    assert names == [f"weather-{day}.csv" for day in deliveries.days("weather")[:3]]
