"""API keys on a real cluster: from both sources, on every route, and nowhere in what it writes."""

import httpx2
import openai
import pytest

from tests.serve.conftest import FILE_KEY, VARIABLE_KEY
from tests.support.server import Server

WRONG_KEY = "sk-of-nobody-77c3"
BODY = {"model": "smollm2-135m", "input": "Hi", "max_output_tokens": 1}


@pytest.mark.parametrize("path", ["/v1/models", "/v1/responses/resp_1", "/metrics", "/nope"])
@pytest.mark.parametrize("headers", [{}, {"authorization": f"Bearer {WRONG_KEY}"}])
def test_without_one_of_the_keys_no_route_answers(
    server: Server, path: str, headers: dict[str, str]
) -> None:
    reply = httpx2.get(server.url + path, headers=headers)
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert reply.json()["error"]["code"] == "invalid_api_key"


def test_the_two_sources_of_keys_are_two_owners(server: Server, v1: openai.OpenAI) -> None:
    theirs = v1.with_options(api_key=VARIABLE_KEY)
    response = theirs.responses.create(model="smollm2-135m", input="Hi", max_output_tokens=1)
    assert theirs.responses.retrieve(response.id).id == response.id
    for call in (v1.responses.retrieve, v1.responses.cancel, v1.responses.delete):
        with pytest.raises(openai.NotFoundError):
            call(response.id)


def test_no_key_stands_in_what_the_server_prints_or_logs(server: Server) -> None:
    for key in (FILE_KEY, VARIABLE_KEY, WRONG_KEY):
        headers = {"authorization": f"Bearer {key}"}
        httpx2.post(f"{server.url}/v1/responses", json=BODY, headers=headers, timeout=60)
    session = server.log_folder.parents[1]
    files = [server.output, *(path for path in session.rglob("*") if path.is_file())]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        for key in (FILE_KEY, VARIABLE_KEY, WRONG_KEY):
            assert key.encode() not in content, path
