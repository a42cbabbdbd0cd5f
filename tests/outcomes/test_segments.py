"""Values by which reports can be divided are the same in the database and in the files of sealed days."""

from sqlalchemy import update

from app.outcomes.decision import DAY as SECONDS
from app.outcomes.tables import DECISIONS
from tests.outcomes.records import decided

DAY = 20_000


def values_of(archive, **options):
    """The segment of each case, in no order."""
    cases = [*archive.cases("loan", **options)]
    return sorted(
        str(part.segments[code]) for part in cases for code in part.segment.tolist()
    )


def test_sealed_days_have_the_segments_of_their_decisions(archive, database):
    ids = decided(database, 4, at=DAY * SECONDS + 5.0)
    with database.writing() as connection:
        for id_, region in zip(ids[:3], ("north", "south", "north"), strict=True):
            row = DECISIONS.c.id == id_
            text = f'{{"region":"{region}"}}'
            connection.execute(update(DECISIONS).where(row).values(segments=text))
    north, south = "{'region': 'north'}", "{'region': 'south'}"
    expected = sorted(["None", north, north, south])
    assert values_of(archive) == expected
    assert archive.sealer.seal("loan", DAY)
    assert values_of(archive) == expected
    assert values_of(archive, arrivals_only=True) == expected
