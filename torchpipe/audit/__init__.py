"""What will be trained on, shown."""

from torchpipe.audit.explain import explain, explain_config
from torchpipe.audit.explanation import CallView, DocumentView, Explanation, MessageView, RowView, TokenView
from torchpipe.audit.inference import InferenceReport, RowContexts, TurnContext, compare_inference, turn_contexts
from torchpipe.audit.preview import preview, prompt_of
from torchpipe.audit.report_pairs import preview_pair, report_pairs
from torchpipe.audit.report_rows import report_held_out, report_rows

__all__ = [
    "CallView",
    "DocumentView",
    "Explanation",
    "InferenceReport",
    "MessageView",
    "RowContexts",
    "RowView",
    "TokenView",
    "TurnContext",
    "compare_inference",
    "explain",
    "explain_config",
    "preview",
    "preview_pair",
    "prompt_of",
    "report_held_out",
    "report_pairs",
    "report_rows",
    "turn_contexts",
]
