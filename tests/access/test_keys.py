"""Keys in their table: told once, kept as digests, and ended for good."""

import pytest
from sqlalchemy import select

from app.access.audit import AuditLog
from app.access.caller import (
    GUESSES,
    KEY_FORM,
    NOTE,
    Caller,
    Keyring,
    KeysMade,
    Scope,
    WrongKey,
)
from app.access.keys import Keys
from app.access.rates import Rate
from app.access.tables import API_KEYS, AUDIT_LOG
from app.errors import Conflict, KeyMissing, NotFound, NotReady, TooMany
from app.storage import Storage
from payoff.errors import Invalid
from tests.conftest import migrated


@pytest.fixture
def keys(tmp_path):
    with migrated(f"sqlite:///{tmp_path / 'payoff.db'}") as database:
        yield Keys(database, AuditLog(database))


@pytest.fixture
def made(tmp_path):
    return KeysMade(Storage(str(tmp_path / "models"), NOTE))


@pytest.fixture
def keyring(keys, made):
    keyring = Keyring(keys, made, "letmein", rate=Rate(7, 60), jobs=3)
    keyring.refresh()
    return keyring


def test_a_key_is_told_once_kept_as_its_digest_and_ended(database_url):
    """The same on both databases."""
    with migrated(database_url) as database:
        _life_of_a_key(Keys(database, AuditLog(database)), database)


def _life_of_a_key(keys, database):
    key, secret = keys.create(
        "bank", ("train", "predict"), ("heart-*",), rate="5/second", jobs=2, days=1
    )

    assert KEY_FORM.fullmatch(secret.encode())
    assert keys.list() == [key]
    assert (key.name, key.scopes, key.models) == (
        "bank",
        {Scope.TRAIN, Scope.PREDICT},
        ("heart-*",),
    )
    assert (key.rate, key.jobs, key.expires_at) == (
        Rate(5, 1),
        2,
        pytest.approx(key.created_at + 86_400, abs=1),
    )
    with database.reading() as connection:
        kept = str(connection.execute(select(API_KEYS)).all()) + str(
            connection.execute(select(AUDIT_LOG)).all()
        )
    assert secret.partition(".")[2] not in kept
    assert key.id in kept
    assert keys.revision()[:2] == (1, 0)
    assert keys.revoke("bank").revoked_at >= key.created_at
    assert keys.revision()[:2] == (1, 1)


@pytest.mark.parametrize(
    ("create", "place"),
    [
        (lambda keys: keys.create(""), "/name"),
        (lambda keys: keys.create("admin"), "/name"),
        (lambda keys: keys.create("a\nb"), "/name"),
        (lambda keys: keys.create("x" * 65), "/name"),
        (lambda keys: keys.create("a", ("root",)), "/scope"),
        (lambda keys: keys.create("a", (), ("Heart",)), "/model"),
        (lambda keys: keys.create("a", (), ("a b",)), "/model"),
        (lambda keys: keys.create("a", ("admin",), ("heart",)), "/model"),
        (lambda keys: keys.create("a", rate="often"), "/rate"),
        (lambda keys: keys.create("a", jobs=0), "/jobs"),
        (lambda keys: keys.create("a", days=-1), "/days"),
        (lambda keys: keys.create("a", days=float("inf")), "/days"),
    ],
)
def test_wishes_that_cannot_be_granted(keys, create, place):
    with pytest.raises(Invalid) as caught:
        create(keys)

    assert [flaw.loc for flaw in caught.value.flaws] == [place]
    assert keys.list() == []


def test_revoking_by_id_or_by_the_name_of_one(keys):
    old, _ = keys.create("bank")
    new, _ = keys.create("bank")

    with pytest.raises(Conflict, match=old.id):
        keys.revoke("bank")
    assert keys.revoke(old.id).revoked_at is not None
    keys.revoke("bank")
    assert [key.revoked_at is None for key in keys.list()] == [False, False]
    assert keys.list(revoked=False) == []
    for which in (new.id, "bank", "nobody"):
        with pytest.raises(NotFound):
            keys.revoke(which)


def test_the_keyring_knows_holders_and_their_limits(keys, keyring):
    key, secret = keys.create("bank", ("predict",), ("heart-*",), rate="5/second")
    with pytest.raises(KeyMissing):
        keyring.caller(secret.encode())  # not looked yet

    keyring.refresh()

    assert keyring.caller(secret.encode()) == Caller(
        "bank", key.id, frozenset({Scope.PREDICT}), ("heart-*",), Rate(5, 1), 3
    )
    admin = keyring.caller(b"letmein")
    assert (admin.name, admin.client, admin.rate, admin.jobs) == (
        "admin",
        None,
        None,
        None,
    )


def test_before_the_table_was_read_the_admin_key_alone_opens_and_guesses_of_it_are_counted(
    keys, made
):
    """As in a process that starts while the database is unavailable."""
    _, secret = keys.create("bank", ("predict",))
    keyring = Keyring(keys, made, "letmein")

    assert keyring.caller(b"letmein").name == "admin"
    for presented in (secret.encode(), None):
        with pytest.raises(NotReady):
            keyring.caller(presented)
    with pytest.raises(WrongKey):
        keyring.caller(b"letmeout")


def test_who_was_let_in_is_known_to_be_let_in_no_longer(keys, made, monkeypatch):
    keyring = Keyring(keys, made)
    keyring.refresh()
    anybody = keyring.caller(None)
    assert keyring.holds(anybody)

    _, first = keys.create("bank")
    expiring, second = keys.create("shop", days=0.001)
    keyring.refresh()
    callers = [keyring.caller(secret.encode()) for secret in (first, second)]

    assert [keyring.holds(caller) for caller in (anybody, *callers)] == [
        False,
        True,
        True,
    ]
    keys.revoke("bank")
    keyring.refresh()
    assert [keyring.holds(caller) for caller in callers] == [False, True]
    monkeypatch.setattr("app.access.caller.time", lambda: expiring.expires_at)
    assert not keyring.holds(callers[1])
    for presented, words in (
        (second, "expired"),
        (
            f"{expiring.id}.{'a' * 43}",
            "invalid API key",
        ),  # only who has the secret is told
        ("payoff_00000000." + "a" * 43, "invalid API key"),
    ):
        with pytest.raises(KeyMissing, match=words) as caught:
            keyring.caller(presented.encode())
        assert not isinstance(caught.value, WrongKey), (
            "what may have been a key is no guess"
        )


def test_wrong_keys_never_keep_a_correct_one_out(keys, keyring):
    """However many wrong keys came, and from wherever: they are refused for longer and longer, correct ones never."""
    _, secret = keys.create("bank")
    keyring.refresh()
    for number in range(3 * GUESSES.amount):
        with pytest.raises(WrongKey):
            keyring.caller(f"guess {number}".encode())
        if number < GUESSES.amount:
            keyring.count_wrong_key("there")
            continue
        with pytest.raises(TooMany) as caught:
            keyring.count_wrong_key("there")
        assert caught.value.seconds > 0
        assert keyring.caller(secret.encode()).name == "bank"
        assert keyring.caller(b"letmein").name == "admin"
    keyring.count_wrong_key("elsewhere")


@pytest.mark.parametrize(
    "presented",
    [b"payoff_00000000.a", b"letmeix", b"", b".", b"\xff\x00", b"a" * 100_000],
)
def test_every_comparison_takes_the_same_way(keys, keyring, presented, monkeypatch):
    """An unknown id costs the comparisons that a wrong secret costs, in constant time."""
    key, _ = keys.create("bank")
    keyring.refresh()
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return False

    monkeypatch.setattr("app.access.caller.hmac.compare_digest", compare)
    for wrong in (presented, key.id.encode() + b"." + b"a" * 43):
        compared.clear()
        with pytest.raises(KeyMissing):
            keyring.caller(wrong)
        assert compared == [(32, 32), (32, 32)]


@pytest.mark.parametrize(
    ("patterns", "reference", "allowed"),
    [
        (("heart-*",), "heart-a:3", True),
        (("heart-*",), "heart-a@best", True),
        (("heart-*",), "my-heart-a", False),
        (("lung", "heart"), "heart", True),
        (("heart",), "lung@heart", False),
        (("heart",), "heart\n", False),
        (("heart",), "", False),
    ],
)
def test_patterns_are_of_names(patterns, reference, allowed):
    assert Caller("a", models=patterns).allows(reference) == allowed
