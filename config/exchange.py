"""`[exchange]` in the settings, without the executor: what principals get, and how far their actions reach."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue

DEFAULT_DEPENDENCY_DEPTH: Final = 10
DEFAULT_INVOKE_DEPTH: Final = 5
DEFAULT_DISK_QUOTA: Final = 100 << 20
DEFAULT_CPU_SECONDS: Final = 5.0
DEFAULT_CPU_WINDOW_S: Final = 60.0
DEFAULT_WAITING_INTENTS: Final = 1000


class ExchangeRules(NamedTuple):
    """The rules of the exchange.

    A new principal gets `disk_quota` bytes, and `cpu_seconds` in each window of `cpu_window` seconds. `delegate` is the
    value for an intent that gives none. Depths: the artifacts on the longest path of dependencies, the levels of calls.
    """

    use_contracts: bool = False
    invoke_depth: int = DEFAULT_INVOKE_DEPTH
    delegate: bool = False
    dependency_depth: int = DEFAULT_DEPENDENCY_DEPTH
    disk_quota: int = DEFAULT_DISK_QUOTA
    cpu_seconds: float = DEFAULT_CPU_SECONDS
    cpu_window: float = DEFAULT_CPU_WINDOW_S
    waiting_intents: int = DEFAULT_WAITING_INTENTS


def exchange_rules_of(value: JsonValue) -> ExchangeRules:
    """The valid keys of `[exchange]`, over the defaults."""
    given = value if isinstance(value, dict) else {}
    default = ExchangeRules()

    def number(name: str, otherwise: int) -> int:
        said = given.get(name)
        return said if isinstance(said, int) and not isinstance(said, bool) else otherwise

    def seconds(name: str, otherwise: float) -> float:
        said = given.get(name)
        return float(said) if isinstance(said, int | float) and not isinstance(said, bool) else otherwise

    return default._replace(
        use_contracts=given.get("use_contracts") is True,
        invoke_depth=number("invoke_depth", default.invoke_depth),
        delegate=given.get("delegate") is True,
        dependency_depth=number("dependency_depth", default.dependency_depth),
        disk_quota=number("disk_quota", default.disk_quota),
        cpu_seconds=seconds("cpu_seconds", default.cpu_seconds),
        cpu_window=seconds("cpu_window", default.cpu_window),
        waiting_intents=number("waiting_intents", default.waiting_intents),
    )


def exchange_rules_to_json(rules: ExchangeRules) -> dict[str, JsonValue]:
    """What `exchange_rules_of` reads."""
    return {**rules._asdict()}
