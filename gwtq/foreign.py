"""What lies in a queue's directory and is not gwtq's: conflict copies, `.DS_Store`, what somebody put there."""

from __future__ import annotations

from . import layout, names
from .store import parse
from .tree import block_first, listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .disk import Disk


def foreign(disk: Disk, directory: str = "") -> Iterator[str]:
    """The path of everything below `directory` whose name is not in the grammar of the place it is in. `tmp/` is left
    out: what a living producer has there is for its lock to say."""
    for name in listing(disk, directory):
        path = f"{directory}/{name}" if directory else name
        kind = _place(directory, name)
        inside = kind == "directory" and disk.is_dir(path)
        if inside and path != layout.TMP:
            yield from foreign(disk, path)
        elif not (inside or kind == "task" or (kind == "file" and not disk.is_dir(path))) and disk.exists(path):
            yield path


def _place(directory: str, name: str) -> str:
    """What a name in this directory stands for: a "directory", a "file", a "task"; '' for nothing of ours."""
    state, *below = directory.split("/")
    if not directory:
        directories = name in layout.DIRECTORIES
        return "directory" if directories else "file" if name in layout.OWN else ""
    if state == layout.KEYS:
        return "file" if layout.is_key_file(name) else ""
    if len(below) < _depth(state):
        return "directory" if _fits(state, below, name) else ""
    return "task" if parse(state, name) else ""


def _depth(state: str) -> int:
    """How many directories lie between a state's own and its tasks."""
    if layout.holding(state):
        return 0
    return 3 if state == names.PENDING else 2


def _fits(state: str, below: list[str], name: str) -> bool:
    """Is this the name of a directory of ours below a state's own?"""
    if state != names.PENDING:
        return layout.is_shard(below[0], name) if below else layout.is_shard(name, "0k")
    if not below:
        return name == layout.WAITING_NAME or _parses(names.parse_priority, name)
    if below[0] == layout.WAITING_NAME:
        return layout.is_bucket(below[1], name) if len(below) > 1 else layout.is_bucket(name, f"{name}T0000Z")
    if len(below) > 1:
        return layout.parse_first_id(name, layout.LEAF_IDS) >= 0
    return block_first(name) >= 0 and _parses(names.parse_channel, name.partition(".")[2])


def _parses(parser: object, name: str) -> bool:
    try:
        parser(name)  # type: ignore[operator]
    except names.BadName:
        return False
    return True
