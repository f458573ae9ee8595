"""A caller is who its key says: exactly one header, exactly one of our keys."""

import hashlib
import pickle
from hmac import compare_digest

import pytest

from deployments.authentication import EVERYONE, KeyRing
from deployments.errors import AuthenticationError

ALICE, BOB = "sk-alice-1", "sk-bob-22"
RING = KeyRing.of((ALICE, BOB))
MISSING = "No API key was sent: send the header 'Authorization: Bearer KEY'."
SEVERAL = "More than one header 'Authorization' was sent."
OTHER = "The header 'Authorization' has no API key: it must be 'Bearer KEY'."
WRONG = "The API key is not one of this server's."


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.mark.parametrize("key", [ALICE, BOB])
@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {} ", " Bearer {}"])
def test_the_owner_is_the_digest_of_the_callers_key(key: str, form: str) -> None:
    assert RING.find_owner([form.format(key).encode()]) == sha256(key)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([], MISSING),
        ([b""], OTHER),
        ([b"Bearer"], OTHER),
        ([b"Bearer "], OTHER),
        ([ALICE.encode()], OTHER),
        ([b"Basic c2stYWxpY2UtMQ=="], OTHER),
        ([b"Bearer\t" + ALICE.encode()], OTHER),
        ([b"Bearer:" + ALICE.encode()], OTHER),
        ([f"Bearer {ALICE}".encode()] * 2, SEVERAL),
        ([f"Bearer {ALICE}".encode(), b"Basic eA=="], SEVERAL),
        ([f"Bearer {ALICE}, Bearer {ALICE}".encode()], WRONG),
        ([f"Bearer {ALICE}x".encode()], WRONG),
        ([f"Bearer {ALICE[:-1]}".encode()], WRONG),
        ([f"Bearer {ALICE.upper()}".encode()], WRONG),
        ([f"Bearer {sha256(ALICE)}".encode()], WRONG),
        ([f"Bearer {ALICE}é".encode()], WRONG),
        ([b"Bearer \xff\xfe\x00"], WRONG),
        ([b"Bearer " + b"x" * 10_000_000], WRONG),
    ],
)
def test_any_other_caller_is_refused_and_told_why(sent: list[bytes], message: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        RING.find_owner(sent)
    assert vars(caught.value) == {"message": message, "param": None, "code": "invalid_api_key"}


@pytest.mark.parametrize("sent", [[], [b"Bearer sk-anything"], [b"", b""]])
def test_without_keys_everyone_is_the_owner(sent: list[bytes]) -> None:
    assert KeyRing.of(()).find_owner(sent) == EVERYONE


@pytest.mark.parametrize("key", [ALICE, BOB, "sk-mallory"])
def test_every_key_is_compared_in_constant_time_whichever_is_sent(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return compare_digest(one, other)

    monkeypatch.setattr("deployments.authentication.hmac.compare_digest", compare)
    try:
        RING.find_owner([f"Bearer {key}".encode()])
    except AuthenticationError:
        assert key == "sk-mallory"
    assert compared == [(sha256(ALICE), sha256(key)), (sha256(BOB), sha256(key))]


def test_a_ring_holds_no_key_and_shows_no_digest() -> None:
    sent = pickle.dumps(RING)
    assert pickle.loads(sent) == RING
    assert ALICE.encode() not in sent
    assert repr(RING) == "KeyRing()"
