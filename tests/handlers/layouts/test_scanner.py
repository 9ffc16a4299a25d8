from runward.handlers.layouts.transcript import PROMPT_KEPT, clip_prompt


def test_a_first_prompt_is_kept_by_its_beginning() -> None:
    assert clip_prompt("fix it") == "fix it"
    assert clip_prompt("ä" * 5000) == "ä" * PROMPT_KEPT
