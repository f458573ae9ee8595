"""The tokenizer of a GGUF file, as tokenizer.json and tokenizer_config.json hold one."""

from typing import Any

from gguf import Keys
from tokenizers import Tokenizer
from tokenizers.processors import ByteLevel, Sequence, TemplateProcessing

from engine.gguf.byte_pair import build_byte_pair, choose_pre_tokenizer
from engine.gguf.reader import GgufFile
from engine.gguf.sentence_piece import build_sentence_piece
from engine.gguf.vocabulary import Vocabulary


def build_tokenizer(file: GgufFile, vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer that the model was trained with.

    Raises:
        ModelLoadError: it is of an unknown kind, or its parts are missing or do not fit together.
    """
    kind = file.need(Keys.Tokenizer.MODEL, str)
    if kind == "gpt2":
        tokenizer = build_byte_pair(file, vocabulary)
        template = frame_text(file, vocabulary, choose_pre_tokenizer(file).adds_bos)
        to_bytes = ByteLevel(trim_offsets=False)
        tokenizer.post_processor = to_bytes if template is None else Sequence([to_bytes, template])
    elif kind == "llama":
        tokenizer = build_sentence_piece(file, vocabulary)
        template = frame_text(file, vocabulary, adds_bos=True)
        if template is not None:
            tokenizer.post_processor = template
    else:
        raise file.error(
            f"its tokenizer is of type {kind}, but only byte-pair ones (gpt2) and "
            "SentencePiece's (llama) can be read"
        )
    return tokenizer


def frame_text(file: GgufFile, vocabulary: Vocabulary, adds_bos: bool) -> TemplateProcessing | None:
    """Frame an encoded text with the tokens that the model wants at its ends, if it wants any.

    `adds_bos` holds where the file does not say.

    Raises:
        ModelLoadError: the file wants a first token but names none.
    """
    said = file.find(Keys.Tokenizer.ADD_BOS, bool)
    if said is not None:
        adds_bos = said
    bos = vocabulary.token(vocabulary.bos_id)
    if adds_bos and bos is None:
        raise file.error(f"its metadata lacks {Keys.Tokenizer.BOS_ID}")
    before = [bos] if adds_bos and bos is not None else []
    adds_eos = file.find(Keys.Tokenizer.ADD_EOS, bool)
    after = [vocabulary.tokens[vocabulary.eos_id]] if adds_eos else []
    if not before and not after:
        return None
    return TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, *before, "$B", *after],
        special_tokens=[(token, vocabulary.tokens.index(token)) for token in {*before, *after}],
    )


def make_tokenizer_config(
    file: GgufFile, vocabulary: Vocabulary, tokenizer: Tokenizer, context_length: int
) -> dict[str, Any]:
    """The content of tokenizer_config.json, by which transformers loads tokenizer.json.

    First and last tokens are left to the post-processor: `add_bos_token` here would make
    transformers replace it. Added tokens are listed because transformers knows by this list alone
    which are special, however they are marked in tokenizer.json, and because it builds some
    families' tokenizers anew, and then takes from there no more than pieces and merges. A role
    that nobody fills is written too: such a family has tokens of its own for it.
    """
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        "bos_token": vocabulary.token(vocabulary.bos_id),
        "eos_token": vocabulary.token(vocabulary.eos_id),
        "unk_token": vocabulary.token(vocabulary.unk_id),
        "pad_token": vocabulary.token(vocabulary.pad_id),
        "additional_special_tokens": vocabulary.special_tokens,
        "added_tokens_decoder": {
            str(token_id): {
                "content": token.content,
                "single_word": token.single_word,
                "lstrip": token.lstrip,
                "rstrip": token.rstrip,
                "normalized": token.normalized,
                "special": token.special,
            }
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        },
    }
    template = file.find(Keys.Tokenizer.CHAT_TEMPLATE, str)
    if template is not None:
        config["chat_template"] = template
    return config
