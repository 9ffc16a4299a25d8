"""The scripted model follows the script that a prompt names, step by step, and leaves asides alone."""

import pytest
from tests.agents.replies import Asked, Calls, Refuses, Says
from tests.agents.scripted_model import Model, prompt

TOOL = Calls("shell", "true")
END = Says("It is done.")
TOOLS = frozenset({"Bash"})


@pytest.mark.parametrize(
    ("heard", "reply"),
    [
        ([prompt("work")], TOOL),
        ([prompt("work"), None], END),
        ([prompt("work"), None, "a reminder"], END),
        ([prompt("work"), None, None, None], END),
        ([prompt("work"), None, prompt("fail")], Refuses(400)),
        ([prompt("fail"), prompt("work")], TOOL),
        ([prompt("fail"), None, None, prompt("work"), None], END),
    ],
)
def test_the_last_prompt_and_the_results_since_choose_the_reply(
    heard: list[str | None], reply: Calls | Says | Refuses
) -> None:
    with Model({"work": [TOOL, END], "fail": [Refuses(400)]}) as model:
        assert model.reply_to(Asked("a-model", tuple(heard), TOOLS)) == reply
        assert model.given.total() == 1


def test_a_request_without_tools_or_without_a_script_gets_an_aside() -> None:
    with Model({"fail": [Refuses(400)]}) as model:
        assert isinstance(model.reply_to(Asked("a-model", (prompt("fail"),), frozenset())), Says)
        assert isinstance(model.reply_to(Asked("a-model", ("Warmup",), TOOLS)), Says)
        assert not model.given
