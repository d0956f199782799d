-- +goose Up
-- The keys are bytes (VARBINARY): every character collation folds or pads something. All times are
-- UTC and set by the server.
CREATE TABLE firsttime_keys (
    scope        VARBINARY(64)  NOT NULL,
    message_id   VARBINARY(255) NOT NULL,
    state        VARBINARY(9)   NOT NULL,
    claimed_by   VARBINARY(128) NOT NULL,
    attempts     BIGINT         NOT NULL,
    recorded_at  DATETIME(6)    NOT NULL,
    leased_until DATETIME(6)    NOT NULL,
    confirmed_at DATETIME(6)    NULL,
    expires_at   DATETIME(6)    NOT NULL,
    PRIMARY KEY (scope, message_id),
    KEY firsttime_keys_expires_at (expires_at),
    CONSTRAINT firsttime_keys_state CHECK (state IN ('CLAIMED', 'CONFIRMED'))
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE firsttime_keys;
