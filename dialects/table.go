package dialects

import (
	"context"
	"errors"
)

// CheckTable fails as Dialect.Open does when the table does not fit, for statements that are not
// prepared and therefore not checked by the server beforehand.
func CheckTable(ctx context.Context, q Queries) error {
	_, err := q.Get(ctx, GetParams{Scope: "firsttime", MessageID: "firsttime"})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
