-- +goose Up
-- Times are microseconds since 1970 by SQLite's own clock. STRICT, because a key stored once as text
-- and once as a blob would be two keys.
CREATE TABLE firsttime_keys (
    scope        TEXT    NOT NULL,
    message_id   TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('CLAIMED', 'CONFIRMED')),
    claimed_by   TEXT    NOT NULL,
    attempts     INTEGER NOT NULL,
    recorded_at  INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    confirmed_at INTEGER,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (scope, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX firsttime_keys_expires_at ON firsttime_keys (expires_at);

-- +goose Down
DROP TABLE firsttime_keys;
