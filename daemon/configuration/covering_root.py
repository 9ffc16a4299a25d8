"""Which root of the settings contains a session, and what it says about its bundle. Imports stay cheap, for commands."""

import os

from runward.config.bundle import BundleRules
from runward.config.root import AUTO, Root
from runward.config.settings import Settings


def bundle_rules(settings: Settings, layout: str, path: str) -> BundleRules | None:
    """How these settings make the bundle of a session at `path`; None if its root wants none."""
    root = innermost_root(settings, layout, path)
    return settings.bundle.rules if root is not None and root.bundle else None


def innermost_root(settings: Settings, layout: str, path: str) -> Root | None:
    """The innermost root for sessions of this layout that contains the path, with or without following links."""
    fitting = [each for each in settings.roots if each.layout in (layout, AUTO)]
    paths = {os.path.normpath(path), os.path.realpath(path)}
    holding = [each for each in fitting if any(_holds(each.path, one) for one in paths)]
    return max(holding, key=lambda each: len(each.path), default=None)


def _holds(root: str, path: str) -> bool:
    """Whether a path is under a root, as written or after resolving links."""
    return any(path.startswith(each.rstrip("/") + "/") for each in (root, os.path.realpath(root)))
