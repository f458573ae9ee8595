"""The Responses resource as a client reads it, whole: what a test does not name is the default."""

from typing import Any

Json = dict[str, Any]

# The contract's fields (Open Responses, `ResponseResource`): each is there in every response.
CONTRACT_FIELDS = frozenset(
    {
        "background",
        "completed_at",
        "created_at",
        "error",
        "frequency_penalty",
        "id",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "object",
        "output",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "status",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "usage",
    }
)


def make_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def make_message(*texts: str, item_id: str = "msg_1", status: str = "completed") -> Json:
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [make_part(text) for text in texts],
    }


def make_reasoning(*texts: str, item_id: str = "rs_1", status: str = "completed") -> Json:
    return {
        "id": item_id,
        "type": "reasoning",
        "status": status,
        "summary": [],
        "content": [{"type": "reasoning_text", "text": text} for text in texts],
    }


def make_call(name: str, arguments: str, number: int = 1, status: str = "completed") -> Json:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": status,
        "call_id": f"call_{number}",
        "name": name,
        "arguments": arguments,
    }


def make_logprob(token: bytes, logprob: float, *top: tuple[bytes, float]) -> Json:
    return {
        **make_token(token, logprob),
        "top_logprobs": [make_token(*other) for other in top],
    }


def make_token(token: bytes, logprob: float) -> Json:
    return {"token": token.decode(errors="replace"), "bytes": list(token), "logprob": logprob}


def make_usage(input_tokens: int, output_tokens: int, cached: int = 0, reasoning: int = 0) -> Json:
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input_tokens + output_tokens,
    }


def make_resource(**changes: Any) -> Json:
    """A response that has just begun, of the model that `tests.support.scripted.CARD` describes."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": None,
        "status": "in_progress",
        "model": "scripted",
        "output": [],
        "output_text": "",
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "background": False,
        "frequency_penalty": 0.0,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": None,
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 0.7,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 0.9,
        "truncation": "disabled",
        **changes,
    }
