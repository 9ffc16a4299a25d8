"""The pages of the exchange: what artifacts say of themselves, who acts and why, and never what reading costs."""

import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, unquote

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, tags_of, the_line_with

from runward.config.json_value import JsonValue
from runward.daemon.cli.exchange.acting import action_request
from runward.daemon.inbox.spool import leave_request
from runward.daemon.store.tables import shared_artifacts as shared_artifacts_table
from runward.daemon.studio import exchange_pages

SECRET = "what others pay for"
CODE = "def run(a, b):\n    return 'bought result'\n"
INTERFACE: JsonValue = {
    "description": "Calculator service",
    "dataType": "service",
    "methods": [
        {
            "name": "add",
            "description": "Add two numbers",
            "inputSchema": {"a": "number", "type": 7},
            "cost": 2,
            "examples": [{"input": {"a": 1, "b": 2}, "output": 3}],
        },
        "multiply",
    ],
    "examples": ["add 1 2"],
    "linearization": "{a} + {b} = {result}",
}


def act(place: Place, principal: str, action: str, **fields: JsonValue) -> None:
    """Have an action carried out."""
    leave_request(
        place.state, action_request(principal, {"action_type": action, "reasoning": f"to {action}", **fields})
    )
    place.daemon_once()


@pytest.fixture(scope="module")
def traded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An exchange of two principals: artifacts with and without an interface, a broken dependency, a tombstone."""
    place = Place(tmp_path_factory.mktemp("traded"))
    place.furnish()
    place.call("exchange", "principal", "create", "writer", "--scrip", "100", "--agent")
    place.call("exchange", "principal", "create", "reader", "--scrip", "10")
    place.daemon_once()
    act(place, "writer", "write_artifact", artifact_id="rounding", content="x")
    act(
        place, "writer", "write_artifact", artifact_id="team/calculator", content=SECRET, code=CODE,
        executable=True, price=2, depends_on=["rounding"], interface=INTERFACE,
        policy={"read_price": 3, "allow_invoke": ["reader"], "allow_write": []},
    )  # fmt: skip
    act(place, "writer", "delete_artifact", artifact_id="rounding")
    act(place, "reader", "read_artifact", artifact_id="team/calculator")
    act(place, "reader", "write_artifact", artifact_id="team/calculator", content="mine")
    return place


@pytest.fixture
def exchange(traded: Place, studio_over: Callable[[Place], Studio]) -> Studio:
    return studio_over(traded)


async def test_an_artifact_shows_its_interface(exchange: Studio) -> None:
    page = (await exchange.get("/exchange/artifacts/team/calculator")).text
    assert '<h1>team/calculator <span class="chip blue">service</span></h1>' in page
    assert '<p class="lead">Calculator service</p>' in page
    method = the_line_with("<code>add</code>", page)
    assert "<details open><summary>" in method
    facts = the_line_with("<dt>Input</dt>", page)
    assert "<dd><code>{&#34;a&#34;: &#34;number&#34;, &#34;type&#34;: 7}</code></dd>" in facts
    assert "<dt>Cost</dt><dd><code>2</code></dd>" in facts
    assert (
        '<pre>{&#34;input&#34;: {&#34;a&#34;: 1, &#34;b&#34;: 2}, &#34;output&#34;: 3}</pre><button type="button">Copy</button>'
        in facts
    )
    assert "<pre>add 1 2</pre>" in page
    rest = page.partition("Everything else in the interface</summary>")[2]
    assert "&#34;linearization&#34;: &#34;{a} + {b} = {result}&#34;" in rest
    assert "methods[0].inputSchema: is not a JSON Schema" in page


async def test_an_artifact_shows_who_may_do_what_and_what_is_broken(exchange: Studio) -> None:
    page = (await exchange.get("/exchange/artifacts/team/calculator")).text
    assert "Broken dependency</span>" in page
    assert '<s>rounding</s> <span class="chip red">broken</span>' in page
    assert "<dd>3 scrip · everyone</dd>" in page
    assert "<dd>2 scrip · the owner, reader</dd>" in page
    assert "<dt>To write</dt><dd>the owner</dd>" in page


async def test_a_search_for_artifacts_that_found_nothing_yet_can_go_on(
    exchange: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_artifacts_table, "MOST_READ", 1)
    following: str | None = "/exchange?owner=writer&deleted=true&type=code"
    lists = []
    while following is not None:
        page = (await exchange.get(following)).text
        lists.append(the_lines_of_artifacts(page))
        link = re.search(r'<a href="([^"#]+)#artifacts" rel="next">search on</a>', page)
        following = None if link is None else html.unescape(link[1])
    assert "among the artifacts that were searched so far" in lists[0]
    assert "No artifact matches." in lists[-1]
    assert len(lists) >= 3


async def test_actions_have_their_reasoning_and_why_they_failed(exchange: Studio) -> None:
    page = (await exchange.get("/exchange/artifacts/team/calculator")).text
    rows = re.findall(r"<tr id=.action-[^>]*>.*?</tr>", page, re.DOTALL)
    assert len(rows) == 3
    assert "“to write_artifact”" in rows[0]
    assert '<span class="state failed">not_authorized</span>' in rows[0]
    assert '<span class="state ok">done</span>' in rows[1]


async def test_a_deleted_artifact_is_a_tombstone(exchange: Studio) -> None:
    page = (await exchange.get("/exchange/artifacts/rounding")).text
    assert "Deleted</span>" in page
    assert 'by <a href="/exchange/principals/writer">writer</a>' in page
    assert "rounding" not in the_lines_of_artifacts((await exchange.get("/exchange")).text)
    listed = (await exchange.get("/exchange?deleted=true")).text
    assert '<span class="chip red">deleted</span>' in the_line_with("/exchange/artifacts/rounding", listed)


def the_lines_of_artifacts(page: str) -> str:
    return page.partition('<h2 id="artifacts">')[2].partition('<h2 id="principals">')[0]


async def test_a_principal_shows_what_it_has_paid_and_did(exchange: Studio) -> None:
    page = (await exchange.get("/exchange/principals/writer")).text
    assert "103 scrip" in page
    assert '<a href="/exchange/artifacts/team/calculator">team/calculator</a>' in page
    assert '<a href="/exchange/principals/reader">reader</a> → ' in page
    assert "“to delete_artifact”" in page


async def test_content_is_shown_on_no_page(exchange: Studio) -> None:
    for path in ("/exchange", *(each for each, _ in await pages_of(exchange))):
        for address in (path, f"{path}?format=json"):
            text = (await exchange.get(address)).text
            assert SECRET not in text
            assert "bought result" not in text


async def pages_of(studio: Studio) -> list[tuple[str, tuple[str, ...]]]:
    """The page of everything in the exchange, and the command that shows the same."""
    everything = json.loads((await studio.get("/exchange?deleted=true&format=json")).text)
    return [
        *(
            (f"/exchange/artifacts/{quote(each['id'])}", ("artifact", "show", each["id"]))
            for each in everything["artifacts"]
        ),
        *(
            (f"/exchange/principals/{quote(each['id'])}", ("principal", "show", each["id"]))
            for each in everything["principals"]
        ),
    ]


async def test_a_page_as_json_is_what_the_commands_print(exchange: Studio) -> None:
    def printed(*words: str) -> JsonValue:
        return exchange.place.call("exchange", *words, "--json").json()

    whole = json.loads((await exchange.get("/exchange?format=json")).text)
    assert whole == {
        "artifacts": printed("artifact", "list"),
        "principals": printed("principal", "list"),
        "ledger": printed("ledger"),
        "log": printed("log"),
    }
    shown = await pages_of(exchange)
    assert len(shown) == 6
    for path, command in shown:
        found = json.loads((await exchange.get(f"{path}?format=json")).text)
        assert found[command[0]] == printed(*command)
        assert found["log"] == printed("log", f"--{command[0]}", command[2])
        if command[0] == "principal":
            assert found["ledger"] == printed("ledger", "--principal", command[2])


@pytest.mark.parametrize("name", ["artifacts", "principals", "ledger", "actions"])
async def test_pages_of_a_list_have_each_row_once(
    exchange: Studio, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    key = {"actions": "log"}.get(name, name)
    whole = json.loads((await exchange.get("/exchange?format=json")).text)[key]
    monkeypatch.setattr(exchange_pages, "PAGE", 1)
    address, found = "/exchange", []
    while True:
        (row,) = json.loads(
            (await exchange.get(f"{address}{'&' if '?' in address else '?'}format=json")).text
        )[key]
        found.append(row)
        page = (await exchange.get(address)).text
        link = re.search(
            rf'<a href="([^"#]+)#\w+" rel="next">(older|more) {name.replace("ledger", "entries")}</a>', page
        )
        if link is None:
            break
        address = html.unescape(link[1])
    assert found == (whole if key in ("artifacts", "principals") else whole[::-1])
    assert len(found) > 1


async def test_a_genesis_artifact_has_a_page(exchange: Studio) -> None:
    page = (await exchange.get("/exchange/artifacts/genesis_ledger")).text
    assert "<code>balance</code>" in page


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/exchange?kid=x", 400, "kid"),
        ("/exchange?deleted=maybe", 400, "maybe"),
        ("/exchange?log_before=-1", 400, "log_before"),
        (f"/exchange?ledger_before={'9' * 30}", 400, "ledger_before"),
        ("/exchange/artifacts/nothing", 404, "There is no artifact nothing in the exchange."),
        ("/exchange/principals/nobody", 404, "There is no principal nobody."),
    ],
)
async def test_what_there_is_not_is_named(exchange: Studio, path: str, status: int, named: str) -> None:
    answer = await exchange.get(path)
    assert (answer.status, named in answer.text) == (status, True)


async def test_before_the_first_principal_the_page_says_how_to_create_it(studio: Studio) -> None:
    page = (await studio.get("/exchange")).text
    assert "<code>runward exchange principal create NAME --scrip 100</code>" in page
    assert '<a href="/exchange"' not in page, "it is in the menu only when there is one"


DEEP: JsonValue = json.loads("[" * 60 + "]" * 60)


@pytest.mark.parametrize(
    "interface",
    [
        {
            "description": MARKUP + INVISIBLE,
            "dataType": MARKUP + INVISIBLE,
            "methods": [
                {
                    "name": MARKUP,
                    "description": INVISIBLE,
                    MARKUP: INVISIBLE,
                    "examples": [MARKUP, {MARKUP: 1}],
                },
                MARKUP,
                None,
                [MARKUP],
            ],
            "examples": [MARKUP, INVISIBLE, {"a": MARKUP}],
            MARKUP: INVISIBLE,
        },
        {"description": [MARKUP], "dataType": {"a": MARKUP}, "methods": MARKUP, "examples": {MARKUP: MARKUP}},
        {"methods": [{"name": 7, "description": None, "examples": "none"}], "description": None},
        {"methods": [{"name": "m", "inputSchema": DEEP}] * 400, "examples": [DEEP, *["x" * 900] * 400]},
        {"rest": [[[[0] * 20_000]]], "examples": [list(range(50_000))]},
    ],
    ids=["markup", "other kinds", "nothing", "many", "long"],
)
async def test_no_interface_breaks_the_page_or_makes_it_long(
    place: Place, studio: Studio, interface: JsonValue
) -> None:
    place.call("exchange", "principal", "create", "writer")
    place.daemon_once()
    act(
        place, "writer", "write_artifact", artifact_id="odd", content="x", interface=interface,
        artifact_type=MARKUP[:30], reasoning=f"{MARKUP}{INVISIBLE}" + "long " * 2000,
        policy={"allow_read": ["<img src=x>"], "read_price": 1},
    )  # fmt: skip
    for path in ("/exchange", "/exchange/artifacts/odd", "/exchange/principals/writer"):
        answer = await studio.get(path)
        assert answer.status == 200
        assert len(answer.text) < 700_000
        tags, attributes = tags_of(answer.text)
        assert not {"script", "img", "iframe", "style", "svg"} & set(tags)
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert not [char for char in answer.text if not char.isprintable() and char != "\n"]
    assert "\\u202e" in (await studio.get("/exchange/artifacts/odd")).text
    assert (
        unquote(json.loads((await studio.get("/exchange?format=json")).text)["artifacts"][0]["id"]) == "odd"
    )
