package dialects

// The records below have the same fields, in the same order, as the ones that sqlc generates for
// every dialect, so that an adapter converts them and the compiler proves that the dialects agree.
// All times are integer microseconds relative to the database's clock: no time crosses the driver.

// States of a key.
const (
	Claimed   = "CLAIMED"
	Confirmed = "CONFIRMED"
)

// ClaimParams are the parameters of Queries.Claim.
type ClaimParams struct {
	Scope       string
	MessageID   string
	ClaimedBy   string
	LeaseUs     int64
	RetentionUs int64
}

// TakeoverParams are the parameters of Queries.Takeover. StaleClaimedBy is the holder that was read.
type TakeoverParams struct {
	ClaimedBy      string
	LeaseUs        int64
	RetentionUs    int64
	Scope          string
	MessageID      string
	StaleClaimedBy string
}

// ConfirmParams are the parameters of Queries.Confirm.
type ConfirmParams struct {
	Scope     string
	MessageID string
	ClaimedBy string
}

// ConfirmKeyParams are the parameters of Queries.ConfirmKey.
type ConfirmKeyParams struct {
	ClaimedBy string
	Scope     string
	MessageID string
}

// InsertConfirmedParams are the parameters of Queries.InsertConfirmed.
type InsertConfirmedParams struct {
	Scope       string
	MessageID   string
	ClaimedBy   string
	RetentionUs int64
}

// ExtendParams are the parameters of Queries.Extend.
type ExtendParams struct {
	LeaseUs     int64
	RetentionUs int64
	Scope       string
	MessageID   string
	ClaimedBy   string
}

// ForgetParams are the parameters of Queries.Forget.
type ForgetParams struct {
	Scope     string
	MessageID string
	ClaimedBy string
}

// GetParams are the parameters of Queries.Get.
type GetParams struct {
	Scope     string
	MessageID string
}

// Row is one key as the database sees it at the moment of the statement.
type Row struct {
	Scope     string
	MessageID string
	State     string
	ClaimedBy string
	Attempts  int64
	// AgeUs is the time since the key was first recorded.
	AgeUs int64
	// LeaseLeftUs is negative or zero once the lease is over.
	LeaseLeftUs int64
	// ConfirmedAgeUs is the time since the confirm, zero for a key that is CLAIMED.
	ConfirmedAgeUs int64
	// RetentionLeftUs is negative or zero once the key may be purged.
	RetentionLeftUs int64
}

// Count is the number of keys in one scope. Claimed and Stale exclude each other; Purgeable counts
// keys that Stale or Confirmed count too.
type Count struct {
	Scope         string
	Claimed       int64
	Stale         int64
	Confirmed     int64
	Purgeable     int64
	OldestClaimUs int64
}

// PurgeBatchParams are the parameters of Queries.PurgeBatch.
type PurgeBatchParams struct {
	FromUs    int64 // UntilUs of the batch before, 0 for the first
	BatchSize int64
}

// PurgedBatch is the result of Queries.PurgeBatch.
type PurgedBatch struct {
	Deleted int64
	// UntilUs is when the last of them expired, in microseconds since 1970. It is 0 where a search gains
	// nothing from beginning there.
	UntilUs int64
	// More is true unless the keys that are left are fewer than a batch.
	More bool
}
