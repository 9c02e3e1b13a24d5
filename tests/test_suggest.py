from torchpipe._suggest import did_you_mean, listed


def test_the_nearest_name_is_suggested_in_its_own_spelling():
    assert did_you_mean("messags", ["Messages", "conversations"]) == " Did you mean 'Messages'?"


def test_nothing_is_suggested_when_nothing_is_near():
    assert did_you_mean("banana", ["user", "tool"]) == ""
    assert did_you_mean("user", []) == ""
    assert did_you_mean(None, ["user"]) == ""


def test_names_are_listed_in_quotes():
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([]) == "nothing"
