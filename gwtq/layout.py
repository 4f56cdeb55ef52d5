"""Where things lie below the queue's directory: paths from states and fields. Pure.

queue.json  .lock  seq  keys/ab
tmp/BATCH/pending+100+…/NAME                          staged: the directory it goes to, with '+' for '/'
pending/100/0000050000.search.gaceta/0000050250/NAME  ready: priority / block and channel / leaf
pending/waiting/20261130/20261130T1905Z/NAME          not due: day / minute
claimed/NAME  recovering/NAME
done/0m/12k/NAME  failed/0m/12k/NAME                  by id: millions / thousands
"""

from __future__ import annotations

from . import names
from .names import CLAIMED, DONE, FAILED, PENDING, RECOVERING, STATES

SETTINGS, LOCK, SEQ, KEYS, TMP = "queue.json", ".lock", "seq", "keys", "tmp"
WAITING_NAME = "waiting"
WAITING = f"{PENDING}/{WAITING_NAME}"
DIRECTORIES = (*STATES, KEYS, TMP)
OWN = frozenset((*DIRECTORIES, SETTINGS, SEQ, LOCK))
REFRESHES = "refreshes"  # in a batch: the staged list
REFRESH_ONLY = "refresh"

LEAF_IDS = 250  # how many ids a leaf is for; its name is the first of them
BLOCK_IDS = 50_000  # likewise of a block: at most 200 leaves
KEY_LETTERS = 2


def state_directory(state: str) -> str:
    """The directory of one state."""
    if state not in STATES:
        raise ValueError(state)
    return state


def block(priority: int, channel: str, number: int) -> str:
    """The directory of the ready tasks of one priority and channel, among the fifty thousand ids of this one."""
    return f"{PENDING}/{priority}/{first_id(number, BLOCK_IDS)}.{channel}"


def leaf(priority: int, channel: str, number: int) -> str:
    """The directory in which the task of this priority, channel and id is claimed."""
    return f"{block(priority, channel, number)}/{first_id(number, LEAF_IDS)}"


def first_id(number: int, ids: int) -> str:
    """The first id of the so many that this one is among, in ten digits: such names sort as numbers do."""
    return f"{number // ids * ids:010}"


def parse_first_id(text: str, ids: int) -> int:
    """The inverse: no id in a directory of this name is below the number; -1 for any other name."""
    plain = len(text) == names.DIGITS_MAX and text.isdigit() and text.isascii()
    return int(text) if plain and int(text) % ids == 0 else -1


def bucket(due: str) -> str:
    """The directory of the tasks that fall due in the minute of this stamp."""
    return f"{WAITING}/{due[:8]}/{due[:13]}Z"


def pending_place(id: str, head: str, priority: int, channel: str, due: str, now: str) -> tuple[str, str]:
    """(directory, name) of a pending task: waiting until the stamp `due`, or ready."""
    if due > now:
        return bucket(due), names.pending_name(id, head, due)
    return leaf(priority, channel, int(id[1:])), names.pending_name(id, head)


def is_bucket(day: str, minute: str) -> bool:
    """Are these the names of a bucket and of the directory that holds it?"""
    return minute[:8] == day and len(minute) == 14 and names.is_stamp(f"{minute[:13]}00{minute[13]}")


def shard(state: str, number: int) -> str:
    """The directory in done/ or failed/ that holds this id, at most a thousand names each."""
    return f"{state}/{number // 1_000_000}m/{number // 1_000 % 1_000}k"


def is_shard(millions: str, thousands: str) -> bool:
    """Are these the names of a shard and of the directory that holds it?"""
    parts = ((millions[:-1], millions[-1:] == "m"), (thousands[:-1], thousands[-1:] == "k"))
    return all(unit and digits.isdecimal() and str(int(digits)) == digits for digits, unit in parts)


def holding(state: str) -> bool:
    """Do the tasks of this state lie directly in its directory?"""
    return state in (CLAIMED, RECOVERING)


def settled(state: str) -> bool:
    """Is this a state that tasks do not leave?"""
    return state in (DONE, FAILED)


def staged_name(directory: str) -> str:
    """The directory of a batch that holds what is to be moved to `directory`; '+' is in no name of ours."""
    return directory.replace("/", "+")


def staged_target(name: str) -> str:
    """The inverse of `staged_name`."""
    return name.replace("+", "/")


def is_staged(name: str) -> bool:
    """Is this the name of a directory in a batch? Its list of refreshes is a file, and what somebody put there is not
    ours to move."""
    return staged_target(name).partition("/")[0] in STATES


def is_batch(name: str) -> bool:
    """Is this name in tmp/ a staged batch? It is called after its first new id, or `refresh` if it adds none."""
    first, _, head = name.partition(".")
    return names.is_gen(head) and (first == REFRESH_ONLY or names.is_id(first))


def state_of(path: str) -> str:
    """The state that a task's path says, also while it is staged."""
    parts = path.split("/")
    return staged_target(parts[2]).split("/")[0] if parts[0] == TMP else parts[0]


def base(path: str) -> str:
    """The last component of a path."""
    return path[path.rfind("/") + 1 :]


def parent(path: str) -> str:
    """All but the last component of a path; '' for a path of one."""
    return path.rpartition("/")[0]


def key_file(digest: str) -> str:
    """The file of keys/ that lists the ids of an identity with this hex digest."""
    return f"{KEYS}/{digest[:KEY_LETTERS]}"


def is_key_file(name: str) -> bool:
    """Is this the name of a file of keys/?"""
    return len(name) == KEY_LETTERS and set(name) <= set("0123456789abcdef")
