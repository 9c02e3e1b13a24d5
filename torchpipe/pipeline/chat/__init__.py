"""Conversations to sequences: a chat processor, by torchpipe's tokenizers, by a template alone, or by a renderer."""

__all__: list[str] = []
