"""The tables as the service made them before it counted revisions, with a row in each."""

_TABLES = """
CREATE TABLE jobs (
    seq {seq} NOT NULL PRIMARY KEY {autoincrement}, id VARCHAR(24) NOT NULL, kind VARCHAR(64) NOT NULL,
    spec TEXT NOT NULL, status VARCHAR(9) NOT NULL, attempt INTEGER NOT NULL, deaths INTEGER NOT NULL,
    progress {double} NOT NULL, stage TEXT NOT NULL, notes TEXT NOT NULL, result TEXT, error TEXT, model VARCHAR(64),
    dataset VARCHAR(64), cancel_requested BOOLEAN NOT NULL, worker TEXT, lease_until {double},
    created_at {double} NOT NULL, started_at {double}, finished_at {double}, UNIQUE (id)
);
CREATE INDEX jobs_status_seq ON jobs (status, seq);
CREATE TABLE workers (name VARCHAR(255) NOT NULL, seen_at {double} NOT NULL, PRIMARY KEY (name));
CREATE TABLE registry_state (
    id INTEGER NOT NULL CHECK (id = 1), revision INTEGER NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE models (
    name VARCHAR(64) NOT NULL, next_version INTEGER NOT NULL, listed BOOLEAN NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE versions (
    name VARCHAR(64) NOT NULL, version INTEGER NOT NULL, sha256 VARCHAR(64) NOT NULL, job TEXT, kind TEXT NOT NULL,
    metrics TEXT NOT NULL, created_at {double} NOT NULL, card TEXT NOT NULL,
    PRIMARY KEY (name, version), FOREIGN KEY (name) REFERENCES models (name)
);
CREATE TABLE alias_history (
    name VARCHAR(64) NOT NULL, seq INTEGER NOT NULL, at {double} NOT NULL, who TEXT NOT NULL,
    alias VARCHAR(64) NOT NULL, from_version INTEGER, to_version INTEGER,
    PRIMARY KEY (name, seq), FOREIGN KEY (name) REFERENCES models (name)
);
CREATE TABLE aliases (
    name VARCHAR(64) NOT NULL, alias VARCHAR(64) NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (name, alias), FOREIGN KEY (name, version) REFERENCES versions (name, version)
);
INSERT INTO jobs (id, kind, spec, status, attempt, deaths, progress, stage, notes, cancel_requested, created_at)
    VALUES ('job_00000000000000000001', 'train', '{{"C": 1}}', 'queued', 0, 0, 0, '', '{{}}', FALSE, 1000);
INSERT INTO workers VALUES ('ann', 1000);
INSERT INTO registry_state VALUES (1, 7);
INSERT INTO models VALUES ('heart', 3, TRUE);
INSERT INTO versions VALUES ('heart', 2, 'abc', NULL, 'logistic', '{{}}', 1000, '{{}}');
INSERT INTO alias_history VALUES ('heart', 1, 1000, 'ann', 'best', NULL, 2);
INSERT INTO aliases VALUES ('heart', 'best', 2)
"""
_WORDS = {
    "sqlite": {"seq": "INTEGER", "autoincrement": "AUTOINCREMENT", "double": "DOUBLE"},
    "postgresql": {"seq": "BIGSERIAL", "autoincrement": "", "double": "DOUBLE PRECISION"},
}


def make(database):
    """Such tables in an empty database."""
    words = _WORDS[database.engine.dialect.name]
    with database.writing() as connection:
        for statement in _TABLES.format(**words).split(";"):
            connection.exec_driver_sql(statement)
