"""The baseline: a task queue in one SQLite file, as somebody would write it who knows SQLite well.

Write-ahead log, one connection for each process, prepared statements (sqlite3 caches them), a claim in one statement
that finds its row by a partial index on (priority, id), a settle by primary key guarded by the token. It does less than
gwtq: it sweeps nothing and keeps no history of attempts. `FULL` survives a power cut, `NORMAL` a crash of the process.
"""

from __future__ import annotations

import os
import sqlite3
import time

SCHEMA = """
create table task (
    id integer primary key, person_key text, person_label text, kind text, source text, query text,
    priority integer not null, status text not null, lane text, since integer, until integer, done_at integer,
    result text, tries integer not null default 0, next_at integer not null default 0, token text
);
create index ready on task (priority desc, id) where status = 'open';
"""
RETURNS = sqlite3.sqlite_version_info >= (3, 35)
BEST = "select id from task where status = 'open' and next_at <= ? order by priority desc, id limit 1"
TAKE = "update task set status = 'claimed', lane = ?, token = ?, since = ?, until = ?, tries = tries + 1 where id = "
DONE = "update task set status = 'done', result = ?, done_at = ?, token = null where id = ? and token = ?"


class SqliteQueue:
    """The queue in the file `path`."""

    def __init__(self, path, synchronous):
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute(f"pragma synchronous = {synchronous}")

    @classmethod
    def create(cls, path, synchronous, tasks):
        """Make it, and put tasks (objects as `gwtq.Queue.add_many` takes them) in."""
        queue = cls(path, synchronous)
        queue.db.executescript(SCHEMA)
        rows = [(t["person"], t["person"], "search", t["source"], t["query"], t["priority"]) for t in tasks]
        queue.db.execute("begin")
        queue.db.executemany(
            "insert into task (person_key, person_label, kind, source, query, priority, status)"
            " values (?, ?, ?, ?, ?, ?, 'open')",
            rows,
        )
        queue.db.execute("commit")
        return queue

    def claim(self, lane):
        """(row, token) of the best task, or None."""
        now, token = int(time.time()), os.urandom(6).hex()
        if RETURNS:
            row = self.db.execute(f"{TAKE}({BEST}) returning *", (lane, token, now, now + 7200, now)).fetchone()
        else:
            row = self._claim_in_two(lane, token, now)
        return (row, token) if row else None

    def _claim_in_two(self, lane, token, now):
        self.db.execute("begin immediate")
        found = self.db.execute(BEST, (now,)).fetchone()
        if found:
            self.db.execute(f"{TAKE}?", (lane, token, now, now + 7200, found[0]))
            found = self.db.execute("select * from task where id = ?", found).fetchone()
        self.db.execute("commit")
        return found

    def done(self, id, token, result):
        """Settle; the claim must be ours."""
        if self.db.execute(DONE, (result, int(time.time()), id, token)).rowcount != 1:
            raise RuntimeError("refused")

    def cycle(self, lane):
        """Claim a task and settle it."""
        row, token = self.claim(lane)
        self.done(row[0], token, "hit")

    def close(self):
        """Close the file."""
        self.db.close()
