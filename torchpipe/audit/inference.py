"""Where the context that a turn is trained in differs from what a server would feed to the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchpipe.audit.explain import dataset_of, graph_rows_of, rows_in_range
from torchpipe.audit.graph_config import is_of_graph
from torchpipe.audit.graph_rows import GraphRows
from torchpipe.audit.origin import Conversation, Origin, locate
from torchpipe.audit.turn_contexts import ContextWriter, TurnContext
from torchpipe.data.messages import Message
from torchpipe.datasets import PackedDataset, PromptDataset, StoredDataset
from torchpipe.errors import ConfigError, TorchpipeError


@dataclass(frozen=True, kw_only=True)
class RowContexts:
    """The assistant's turns of one conversation.

    Attributes:
        index: the row's number, or the pack's; sample: the number of the sample.
        side: of a pair: "chosen" or "rejected"; "" elsewhere.
        source: what the data set calls its source; None where it doesn't say.
        turns: all of the assistant's, trained or not.
        refused: the sentence with which the row is refused; None where it can be written.
    """

    index: int
    sample: int
    source: str | None
    turns: tuple[TurnContext, ...] = ()
    refused: str | None = None
    side: str = ""


@dataclass(frozen=True, kw_only=True)
class InferenceReport:
    """The contexts of some rows of a data set. ``print`` it.

    Attributes:
        source: where the rows come from; None where the data set doesn't say.
        rows: those that were asked for.
    """

    source: str | None
    rows: Sequence[RowContexts]

    def to_text(self, *, color: bool = False, width: int = 100, max_tokens: int | None = None) -> str:
        """See :func:`torchpipe.audit.inference_text.to_text`."""
        from torchpipe.audit.inference_text import to_text

        return to_text(self, color=color, width=width, max_tokens=max_tokens)

    def to_dict(self) -> dict[str, Any]:
        """See :func:`torchpipe.audit.inference_text.to_dict`."""
        from torchpipe.audit.inference_text import to_dict

        return to_dict(self)

    def __str__(self) -> str:
        return self.to_text()


def compare_inference(dataset: Any, tokenizer: Any = None, *, rows: Sequence[int] = (0,)) -> InferenceReport:
    """For each turn of the assistant, whether its training context is what a server would feed.

    A server is taken to write the messages before the turn and the prompt of a reply: with a chat template, all of them
    by ``add_generation_prompt``; in a format of the table, the messages closed and the assistant's header. It encodes
    the conversation anew for each turn. Nothing is cut to max_seq_len here, and turns that are not proved are shown
    from where the texts part, whatever ``on_unproved`` says.

    Args:
        dataset: of messages: for fine-tuning, of pairs or of labelled answers; packed or joined with others or not.
        tokenizer: the model transform; None takes the data set's own.
        rows: which rows, or packs; negative ones count from the end.

    Raises:
        ConfigError: there is no such row, or the data set or its tokenizer is of another kind.
    """
    found: list[RowContexts] = []
    for index in rows_in_range(rows, dataset):
        part, number = locate(dataset, index)
        if isinstance(part, GraphRows):
            found += _rows_of_graph(part, index, tokenizer)
            continue
        origin = Origin.of(part)
        if origin.dataset is None or isinstance(origin.dataset, PromptDataset):
            raise _no_conversations(f"a {type(part).__name__}")
        writer = ContextWriter.of(origin.model_transform if tokenizer is None else tokenizer)
        places = [number]  # of the rows that are shown
        if isinstance(part, PackedDataset):
            places = list(dict.fromkeys(part.row_of(span.sample)[0] for span in part.spans(number)))
        elif isinstance(part, StoredDataset):
            places = [part.row_of(number)[0]]
        for place in places:
            found += _row(origin, index, place, writer)
    name = getattr(dataset, "name", None) or (found[0].source if found else None)
    return InferenceReport(source=name if isinstance(name, str) else None, rows=found)


def compare_config(
    cfg: Mapping[Any, Any], *, rows: Sequence[int] | None = None, num_rows: int = 1, section: str = "dataset"
) -> InferenceReport:
    """The same for a config's dataset section; arguments and errors are those of
    :func:`~torchpipe.audit.explain_config`.
    """
    if is_of_graph(cfg, section):
        asked = list(range(num_rows) if rows is None else rows)
        _, graph_rows = graph_rows_of(cfg, asked, section)
        return compare_inference(graph_rows, rows=asked[: len(graph_rows)] if rows is None else asked)
    dataset, tokenizer, _ = dataset_of(cfg, rows=rows, num_rows=num_rows, section=section)
    chosen = range(min(num_rows, len(dataset))) if rows is None else rows
    return compare_inference(dataset, tokenizer, rows=list(chosen))


def turn_contexts(tokenizer: Any, messages: Sequence[Message], tools: Any = None) -> list[TurnContext]:
    """The turns of one conversation; see :func:`compare_inference`.

    Raises:
        ConfigError: the tokenizer is of another kind.
        DataError, TokenizerError: the conversation can't be written.
    """
    return ContextWriter.of(tokenizer).turns(Conversation(list(messages), tools))


def _rows_of_graph(part: GraphRows, index: int, tokenizer: Any) -> list[RowContexts]:
    """The turns of all conversations that a row of a graph holds (a part of)."""
    places = part.places(index)
    if not places or any(place.origin.dataset is None for place in places):
        raise _no_conversations("rows of a graph whose sources have no ChatProcessor, or that Grain runs")
    told = {(place.origin.name, place.row): place for place in places}
    return [
        context
        for place in told.values()
        for context in _row(
            place.origin,
            index,
            place.row,
            ContextWriter.of(place.origin.model_transform if tokenizer is None else tokenizer),
        )
    ]


def _no_conversations(what: str) -> ConfigError:
    kinds = "of conversations (an SFTDataset, pairs, labelled answers, sources of a graph with a ChatProcessor)"
    return ConfigError(f"explain --inference compares the replies {kinds}, and this is {what}.")


def _row(origin: Origin, index: int, sample: int, writer: ContextWriter) -> list[RowContexts]:
    """The turns of a row's conversations: two of a pair, of which the second tells what is not in the first."""
    known: dict[str, Any] = {"index": index, "sample": sample, "source": origin.name}
    told: list[RowContexts] = []
    try:
        found = [(one, writer.turns(one)) for one in origin.conversations(sample)]
    except TorchpipeError as error:
        return [RowContexts(**known, refused=str(error))]
    for one, turns in found:
        begin = one.num_prompt if told else 0
        told.append(RowContexts(**known, turns=tuple(turn for turn in turns if turn.message >= begin), side=one.side))
    return told or [RowContexts(**known)]
