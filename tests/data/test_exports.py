import torchpipe.constants
import torchpipe.data

TORCHTUNE = {
    "CROSS_ENTROPY_IGNORE_IDX",
    "Message",
    "Role",
    "validate_messages",
    "mask_messages",
    "InputOutputToMessages",
    "ChosenRejectedToMessages",
    "ShareGPTToMessages",
    "OpenAIToMessages",
    "AlpacaToMessages",
    "PromptTemplateInterface",
    "PromptTemplate",
    "ChatMLTemplate",
    "GrammarErrorCorrectionTemplate",
    "SummarizeTemplate",
    "QuestionAnswerTemplate",
    "truncate",
    "load_image",
    "format_content_with_images",
    "left_pad_sequence",
    "padded_collate",
    "padded_collate_sft",
    "padded_collate_dpo",
    "padded_collate_packed",
    "padded_collate_tiled_images_and_mask",
}

NOT_YET: set[str] = set()


def test_every_name_of_torchtune_data_is_exported():
    assert len(TORCHTUNE) == 25
    assert set(torchpipe.data.__all__) >= TORCHTUNE - NOT_YET


def test_every_exported_name_is_there_once():
    assert len(torchpipe.data.__all__) == len(set(torchpipe.data.__all__))
    assert all(hasattr(torchpipe.data, name) for name in torchpipe.data.__all__)


def test_the_ignored_label_is_one_object():
    assert torchpipe.data.CROSS_ENTROPY_IGNORE_IDX is torchpipe.constants.IGNORE_INDEX
