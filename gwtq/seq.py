"""`seq`: the ids given out. Replacing it commits what a producer staged; lost, it is made again from the tasks."""

from __future__ import annotations

from . import layout, names
from .disk import TRIES_MAX
from .errors import Corrupt
from .idset import IdSet
from .store import present

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .disk import Disk
    from .store import Store


def replace(disk: Disk, path: str, data: bytes, chance: str) -> None:
    """Put a file of this content at `path`, whole or not at all. Durable on return."""
    temporary = f"{layout.TMP}/{layout.SEQ}.{chance}"
    disk.create(temporary, data, sync=True)
    directory = disk.open_dir(layout.parent(path))
    try:
        disk.rename(temporary, layout.base(path), directory)
        disk.sync_dir(directory)
    finally:
        disk.close(directory)


def write_seq(store: Store, ids: IdSet, batch: str = "") -> None:
    """Replace `seq`: the commit point of every producer. Durable on return."""
    data = ids.render() + "\n" + (batch + "\n" if batch else "")
    replace(store.disk, layout.SEQ, data.encode("ascii"), store.letters(names.GEN_CHANCE))


def rebuilt_ids(store: Store) -> IdSet:
    """The ids of the tasks that are there: two scans that agree, since one may miss a task that moves."""
    before = None
    for _ in range(TRIES_MAX):
        found = {number for number, _ in present(store)}
        if found == before:
            return IdSet(sorted(found))
        before = found
    raise Corrupt("The tasks move too fast to be counted; stop the lanes and try again.")
