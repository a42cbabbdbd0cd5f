"""The servers that other tests build upon do what they say."""

from __future__ import annotations

import obstore
import psycopg
import pytest
from distributed import Client
from obstore.store import from_url
from sqlalchemy import create_engine, text

from tests.servers.postgres import Postgres


def test_a_killed_database_comes_back_with_what_was_committed(postgres_server: Postgres, postgres_url):
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE kept AS SELECT 7 AS number"))
    postgres_server.restart()
    with pytest.raises(Exception, match=r"terminat|closed|lost|refused"), engine.begin() as connection:
        connection.execute(text("SELECT number FROM kept"))
    with engine.begin() as connection:
        assert connection.execute(text("SELECT number FROM kept")).scalar_one() == 7
    engine.dispose()


def test_a_paused_database_hangs_and_goes_on(postgres_server: Postgres):
    postgres_server.pause()
    try:
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(f"host=127.0.0.1 port={postgres_server.port} user=payoff dbname=postgres connect_timeout=2")
    finally:
        postgres_server.resume()
    assert postgres_server.ready()


def test_a_bucket_holds_objects(bucket):
    place = from_url(bucket, client_options={"allow_http": True})
    obstore.put(place, "a/b", b"content")
    assert bytes(obstore.get(place, "a/b").bytes()) == b"content"


def test_the_cluster_computes(dask_cluster):
    with Client(dask_cluster) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        assert client.submit(sum, [1, 2, 3]).result(timeout=30) == 6
