"""Databases of our own making, with the tables and the rows that opencode writes. Kilo's are the same."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from tests.handlers.layouts.pi_lines import BEGAN

from runward.config.json_value import JsonValue

TABLES: Final = """
CREATE TABLE `session` (
  `id` text PRIMARY KEY, `project_id` text NOT NULL, `workspace_id` text, `parent_id` text, `slug` text NOT NULL,
  `directory` text NOT NULL, `path` text, `title` text NOT NULL, `version` text NOT NULL, `share_url` text,
  `summary_additions` integer, `summary_deletions` integer, `summary_files` integer, `summary_diffs` text, `metadata` text,
  `cost` real DEFAULT 0 NOT NULL, `tokens_input` integer DEFAULT 0 NOT NULL, `tokens_output` integer DEFAULT 0 NOT NULL,
  `revert` text, `permission` text, `agent` text, `model` text, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `time_compacting` integer, `time_archived` integer
);
CREATE INDEX `session_parent_idx` ON `session` (`parent_id`);
CREATE TABLE `message` (
  `id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL, `time_updated` integer NOT NULL,
  `data` text NOT NULL,
  CONSTRAINT `fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
);
CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`);
CREATE TABLE `part` (
  `id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
"""

KILO_INDEXES: Final = """
CREATE INDEX `recall_message_role_idx` ON `message`
  (`id`,json_extract("data", '$.role'),coalesce(json_extract("data", '$.parentID'), ''));
CREATE INDEX `part_session_step_finish_idx` ON `part` (`session_id`)
  WHERE json_valid("part"."data") AND json_extract("part"."data", '$.type') = 'step-finish';
"""
"""Kilo's own indexes, by what is in the JSON of its rows."""

SESSION: Final = "ses_ddecb6b6cffeWXFfOB4ozt2BL7"
BEGAN_MS: Final = int(BEGAN * 1000)

Data = dict[str, JsonValue]


def made(path: Path) -> sqlite3.Connection:
    """A database at `path`, open as the program has it open: what is written goes to its log first."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma wal_autocheckpoint = 0")
    connection.executescript(TABLES)
    return connection


class Sessions:
    """Sessions in the making, in an open database. `seen` is called after each write."""

    def __init__(self, connection: sqlite3.Connection, seen: Callable[[], None] = lambda: None) -> None:
        self.connection = connection
        self.seen = seen
        self.clock = BEGAN_MS
        self.number = 0

    def write(self, statement: str, *values: object) -> None:
        self.connection.execute(statement, values)
        self.seen()

    def tick(self) -> int:
        self.clock += 1000
        return self.clock

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}_{self.number:012x}"

    def session(self, session: str = SESSION, parent: str | None = None) -> "Log":
        self.write(
            "insert into session (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated)"
            " values (?, 'global', ?, 'a', '/home/dev/app', 'New', '1.18.33', ?, ?)",
            *(session, parent, self.clock, self.clock),
        )
        return Log(self, session)


class Log:
    """One session: each call writes what opencode writes then, row by row, a second after what was before."""

    def __init__(self, sessions: Sessions, session: str) -> None:
        self.all = sessions
        self.id = session
        self.asked = self.reply = self.tool = ""
        self.data: Data = {}
        self.tool_data: Data = {}

    def message(self, data: Data) -> str:
        message, at = self.all.name("msg"), self.all.tick()
        data["time"] = {"created": at}
        values = (message, self.id, at, at, json.dumps(data))
        self.all.write("insert into message values (?, ?, ?, ?, ?)", *values)
        return message

    def part(self, message: str, data: Data) -> str:
        part, at = self.all.name("prt"), self.all.clock
        values = (part, message, self.id, at, at, json.dumps(data))
        self.all.write("insert into part values (?, ?, ?, ?, ?, ?)", *values)
        return part

    def update(self, table: str, row: str, data: Data) -> None:
        statement = f"update {table} set data = ?, time_updated = ? where id = ?"
        self.all.write(statement, json.dumps(data), self.all.clock, row)

    def prompt(self, text: str = "make a file") -> Self:
        model: JsonValue = {"providerID": "mock", "modelID": "mock-model"}
        data: Data = {"role": "user", "agent": "build", "model": model}
        self.asked = self.message(data)
        self.part(self.asked, {"type": "text", "text": text})
        self.update("message", self.asked, {**data, "summary": {"diffs": []}})
        return self

    def begin(self, **more: JsonValue) -> Self:
        """A reply begins."""
        nothing: JsonValue = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        self.data = {
            "role": "assistant",
            "parentID": self.asked,
            "modelID": "mock-model",
            "providerID": "mock",
            "cost": 0,
            "tokens": nothing,
            **more,
        }
        self.reply = self.message(self.data)
        self.part(self.reply, {"type": "step-start"})
        return self

    def end(self, finish: str | None, *, cost: float = 0.002, **more: JsonValue) -> Self:
        """The reply is complete."""
        tokens: JsonValue = {"input": 60, "output": 7, "reasoning": 3, "cache": {"read": 40, "write": 0}}
        self.data |= {"finish": finish, "cost": cost, "tokens": tokens} if finish else {}
        if finish:
            self.part(self.reply, {"type": "step-finish", "reason": finish, "tokens": tokens, "cost": cost})
        time = self.data["time"]
        assert isinstance(time, dict)
        self.data |= {"time": {**time, "completed": self.all.tick()}, **more}
        self.update("message", self.reply, self.data)
        self.all.write("update session set time_updated = ? where id = ?", self.all.clock, self.id)
        return self

    def write_text(self, text: str) -> Self:
        begun = self.all.tick()
        part = self.part(self.reply, {"type": "text", "text": "", "time": {"start": begun}})
        done: Data = {"type": "text", "text": text, "time": {"start": begun, "end": begun + 6}}
        self.update("part", part, done)
        return self

    def say(self, text: str = "Done.", finish: str = "stop") -> Self:
        return self.begin().write_text(text).end(finish)

    def run(self, call: str = "call_1", command: str = "true", tool: str = "bash") -> Self:
        """A tool begins to run."""
        self.tool_data = {"type": "tool", "tool": tool, "callID": call}
        pending: Data = {**self.tool_data, "state": {"status": "pending", "input": {}, "raw": ""}}
        self.tool = self.part(self.reply, pending)
        self.tool_data["state"] = {
            "status": "running",
            "input": {"command": command},
            "time": {"start": self.all.tick()},
        }
        self.update("part", self.tool, self.tool_data)
        return self

    def returned(self, *, failed: bool = False, exit_code: int = 0) -> Self:
        """The tool is done."""
        state = self.tool_data["state"]
        assert isinstance(state, dict)
        time = state["time"]
        assert isinstance(time, dict)
        ended: Data = {"time": {**time, "end": self.all.tick()}}
        more: Data = (
            {"status": "error", "error": "not so fine"}
            if failed
            else {"status": "completed", "output": "fine", "title": "", "metadata": {"exit": exit_code}}
        )
        self.tool_data = {**self.tool_data, "state": {**state, **more, **ended}}
        self.update("part", self.tool, self.tool_data)
        return self

    def call(self, call: str = "call_1", command: str = "true", tool: str = "bash") -> Self:
        return self.begin().run(call, command, tool)

    def result(self, *, failed: bool = False) -> Self:
        return self.returned(failed=failed).end("tool-calls")

    def fail(self, name: str = "APIError", why: str = "400 refused") -> Self:
        return self.begin().end(None, error={"name": name, "data": {"message": why, "statusCode": 400}})
