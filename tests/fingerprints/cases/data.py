"""Message transforms, prompt templates and policies of torchpipe.data."""

from collections.abc import Callable
from typing import Any

from torchpipe import data
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.models.llama3 import Llama3Tokenizer


def cases(case: Callable[..., Any], inputs: Any) -> list[Any]:
    column = {"system": "sys"}
    as_message = {"masking_strategy": "train_on_all", "train_on_input": True}
    return [
        case(
            cls=data.AlpacaToMessages,
            other={
                "masking_strategy": "train_on_assistant",
                "train_on_input": False,
                "column_map": {"instruction": "a", "output": "b"},
            },
        ),
        case(
            cls=data.InputOutputToMessages,
            other={
                **as_message,
                "column_map": {"input": "a", "output": "b"},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "allow_remote": False,
            },
        ),
        case(
            cls=data.ShareGPTToMessages,
            other={
                **as_message,
                "column_map": {"conversations": "a", **column},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "image_tag": None,
                "allow_remote": False,
                "split_reasoning": True,
            },
        ),
        case(
            cls=data.OpenAIToMessages,
            other={
                **as_message,
                "column_map": {"messages": "a", **column},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "allow_remote": False,
                "split_reasoning": True,
            },
        ),
        case(
            cls=data.ChosenRejectedToMessages,
            other={**as_message, "column_map": {"chosen": "a", "rejected": "b"}, "new_system_prompt": "x"},
        ),
        case(cls=data.PromptTemplate, given={"template": {"user": ("a", "b")}}, other={"template": inputs.table}),
        case(cls=data.GrammarErrorCorrectionTemplate, other={"template": inputs.table}),
        case(cls=data.SummarizeTemplate, other={"template": inputs.table}),
        case(cls=data.QuestionAnswerTemplate, other={"template": inputs.table}),
        case(cls=data.ChatMLTemplate),
        case(cls=data.TrainOn, other={"reasoning": False, "tool_calls": False, "answer": False, "turn_end": "last"}),
        case(
            cls=OverflowPolicy,
            given={"max_seq_len": 8},
            other={"max_seq_len": 9, "overflow": "drop", "truncation_type": "left", "stop_token": "keep"},
        ),
        case(
            cls=SFTTransform,
            given={"message_transform": data.OpenAIToMessages(), "model_transform": Llama3Tokenizer(inputs.ranks[0])},
            same={"model_transform": Llama3Tokenizer(inputs.ranks[1])},
            other={
                "message_transform": data.AlpacaToMessages(),
                "model_transform": Llama3Tokenizer(inputs.ranks[0], max_seq_len=9),
                "overflow": OverflowPolicy(max_seq_len=9),
            },
        ),
    ]
