"""What will be trained on, shown."""

from torchpipe.audit.explain import explain, explain_config
from torchpipe.audit.explanation import DocumentView, Explanation, MessageView, RowView, TokenView
from torchpipe.audit.preview import preview, prompt_of

__all__ = [
    "DocumentView",
    "Explanation",
    "MessageView",
    "RowView",
    "TokenView",
    "explain",
    "explain_config",
    "preview",
    "prompt_of",
]
