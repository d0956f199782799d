-- +goose Up
-- The keys compare byte by byte (COLLATE "C"). expires_at carries the only other index: it never
-- changes in a confirm, so that a confirm stays a HOT update; fillfactor leaves it room on the page.
CREATE TABLE firsttime_keys (
    scope        TEXT COLLATE "C" NOT NULL,
    message_id   TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    claimed_by   TEXT COLLATE "C" NOT NULL,
    attempts     BIGINT           NOT NULL,
    recorded_at  TIMESTAMPTZ      NOT NULL,
    leased_until TIMESTAMPTZ      NOT NULL,
    confirmed_at TIMESTAMPTZ,
    expires_at   TIMESTAMPTZ      NOT NULL,
    CONSTRAINT firsttime_keys_pkey PRIMARY KEY (scope, message_id),
    CONSTRAINT firsttime_keys_state CHECK (state IN ('CLAIMED', 'CONFIRMED'))
) WITH (fillfactor = 70);
CREATE INDEX firsttime_keys_expires_at ON firsttime_keys (expires_at);

-- +goose Down
DROP TABLE firsttime_keys;
