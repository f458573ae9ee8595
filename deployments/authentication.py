"""Whose request this is: bearer keys, of which digests alone are kept."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from deployments.errors import AuthenticationError

EVERYONE = ""  # the owner of all responses of a server without keys
CODE = "invalid_api_key"


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of a server. An empty ring asks for none."""

    digests: tuple[str, ...] = field(repr=False)
    """SHA-256 of each key, in hexadecimal digits."""

    @classmethod
    def of(cls, keys: Iterable[str]) -> Self:
        return cls(tuple(to_digest(key.encode()) for key in keys))

    def find_owner(self, authorizations: Sequence[bytes]) -> str:
        """The owner of what the caller makes: the digest of its key, or everyone.

        `authorizations` are the values of all headers of that name, as they were sent.

        Raises:
            AuthenticationError: where there is no key, or none of the ring's.
        """
        if not self.digests:
            return EVERYONE
        sent = to_digest(read_bearer_key(authorizations))
        # All are compared, each in constant time: no duration tells how near a guess came.
        owners = [digest for digest in self.digests if hmac.compare_digest(digest, sent)]
        if not owners:
            raise AuthenticationError("The API key is not one of this server's.", None, CODE)
        return owners[0]


def to_digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def read_bearer_key(authorizations: Sequence[bytes]) -> bytes:
    """The key in `Authorization: Bearer KEY` (RFC 6750, section 2.1; no scheme minds its case).

    Raises:
        AuthenticationError: where there is none, or more than one header.
    """
    if not authorizations:
        raise AuthenticationError(
            "No API key was sent: send the header 'Authorization: Bearer KEY'.", None, CODE
        )
    if len(authorizations) > 1:
        raise AuthenticationError("More than one header 'Authorization' was sent.", None, CODE)
    scheme, _, key = authorizations[0].strip().partition(b" ")
    key = key.strip()
    if scheme.lower() != b"bearer" or not key:
        raise AuthenticationError(
            "The header 'Authorization' has no API key: it must be 'Bearer KEY'.", None, CODE
        )
    return key
