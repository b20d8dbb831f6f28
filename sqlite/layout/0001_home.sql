-- The kinds that this file holds, as they were declared, and the ownership and counters of threads.
CREATE TABLE kind (
  name        TEXT PRIMARY KEY NOT NULL,
  declaration TEXT NOT NULL
);
CREATE TABLE lease (
  thread INTEGER PRIMARY KEY,
  owner  TEXT    NOT NULL DEFAULT '',
  epoch  INTEGER NOT NULL DEFAULT 0,
  seq    INTEGER NOT NULL DEFAULT 0
);
-- Few threads have an owner at a time.
CREATE INDEX lease_owner ON lease(owner) WHERE owner<>'';
