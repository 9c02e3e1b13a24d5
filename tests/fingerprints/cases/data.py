"""Message transforms, prompt templates and policies of torchpipe.data."""

from collections.abc import Callable
from typing import Any

from torchpipe import data
from torchpipe.data.kto_transform import KTOTransform
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.pair_transform import PairTransform
from torchpipe.data.prompt_transform import PromptTransform
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
        case(
            cls=data.PromptedPairToMessages,
            other={
                **as_message,
                "column_map": {"prompt": "p", "chosen": "a", "rejected": "b"},
                "new_system_prompt": "x",
            },
        ),
        case(
            cls=data.StackExchangePairedToMessages,
            other={"column_map": {"prompt": "p", "chosen": "a", "rejected": "b"}, "train_on_input": True},
        ),
        case(
            cls=data.TranscriptPairToMessages,
            other={
                "column_map": {"chosen": "a", "rejected": "b"},
                "new_system_prompt": "x",
                "masking_strategy": "train_on_all",
            },
        ),
        case(
            cls=data.LabelledToMessages,
            other={
                "column_map": {"messages": "a", "label": "b"},
                "new_system_prompt": "x",
                "masking_strategy": "train_on_all",
            },
        ),
        case(cls=data.PromptToMessages, other={"column_map": {"prompt": "a"}, "new_system_prompt": "x"}),
        case(
            cls=data.PairPolicy,
            given={"overflow": "truncate", "max_seq_len": 8},
            other={
                "overflow": "error",
                "max_seq_len": 9,
                "max_prompt_len": 5,
                "max_response_len": 5,
                "prompt_truncation": "turns",
                "stop_token": "keep",
                "on_equal": "keep",
                "on_prompts_differ": "keep",
            },
        ),
        case(
            cls=PairTransform,
            given={
                "message_transform": data.ChosenRejectedToMessages(),
                "model_transform": Llama3Tokenizer(inputs.ranks[0]),
            },
            same={"model_transform": Llama3Tokenizer(inputs.ranks[1])},
            other={
                "message_transform": data.PromptedPairToMessages(),
                "model_transform": Llama3Tokenizer(inputs.ranks[0], max_seq_len=9),
                "policy": data.PairPolicy(on_equal="keep"),
            },
        ),
        case(
            cls=KTOTransform,
            given={"message_transform": data.LabelledToMessages(), "model_transform": Llama3Tokenizer(inputs.ranks[0])},
            same={"model_transform": Llama3Tokenizer(inputs.ranks[1])},
            other={
                "message_transform": data.LabelledToMessages(new_system_prompt="x"),
                "model_transform": Llama3Tokenizer(inputs.ranks[0], max_seq_len=9),
                "overflow": OverflowPolicy(max_seq_len=9),
            },
        ),
        case(
            cls=PromptTransform,
            given={"message_transform": data.PromptToMessages(), "model_transform": Llama3Tokenizer(inputs.ranks[0])},
            same={"model_transform": Llama3Tokenizer(inputs.ranks[1])},
            other={
                "message_transform": data.PromptToMessages(new_system_prompt="x"),
                "model_transform": Llama3Tokenizer(inputs.ranks[2]),
                "max_prompt_len": 9,
                "truncate": True,
                "keep_columns": ["id"],
            },
        ),
        case(
            cls=data.DetectedToMessages,
            other={
                "masking_strategy": "train_on_all",
                "column_map": {"input": "a"},
                "new_system_prompt": "x",
                "image_dir": "/a",
                "allow_remote": False,
                "split_reasoning": True,
                "shapes": ["Alpaca"],
            },
        ),
        case(
            cls=data.InstructionToMessages,
            other={
                "masking_strategy": "train_on_all",
                "column_map": {"prompt": "a", "response": "b"},
                "new_system_prompt": "x",
            },
        ),
        case(
            cls=data.TaggedTurnsToMessages,
            given={"role_key": "who", "content_key": "says", "column_map": {"messages": "turns", "image": "i"}},
            other={
                "role_key": "a",
                "content_key": "b",
                "speakers": {"q": "user"},
                "column_map": {"messages": "a", "image": "i"},
                "new_system_prompt": "x",
                "masking_strategy": "train_on_all",
                "image_dir": "/a",
                "image_tag": None,
                "allow_remote": False,
                "split_reasoning": True,
            },
        ),
    ]
