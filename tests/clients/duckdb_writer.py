"""`python duckdb_writer.py SOURCE TARGET TERMS`: write the table of an Arrow file as DuckDB does.

A process of its own, since the library prints what it leaks when its process ends. TERMS is JSON:
`settings` by name, the `columns` to select, and the `options` of a COPY, or null for a stream of
Arrow.
"""

import json
import sys

import duckdb
import pyarrow as pa


def main(source: str, target: str, terms: str) -> None:
    request = json.loads(terms)
    connection = duckdb.connect()
    for name, value in request["settings"].items():
        connection.execute(f"SET {name}={value!r}")
    with pa.memory_map(source) as file:
        connection.register("patients", pa.ipc.open_file(file).read_all())
    if request["options"] is not None:
        connection.execute(f"COPY patients TO '{target}' ({request['options']})")
        return
    reader = connection.sql(
        f"SELECT {request['columns']} FROM patients"
    ).to_arrow_reader()
    with pa.ipc.new_stream(target, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
