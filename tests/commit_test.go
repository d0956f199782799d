package tests

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/firsttime-go/firsttime/store"
)

// The connection dies around COMMIT: InTx must say truly whether the work was committed.
func TestInTxTellsTheTruthWhenTheReplyToCommitIsLost(t *testing.T) {
	const rounds = 200
	for _, d := range []database{postgresDB, mariaDB, mySQL} {
		for name, c := range map[string]struct {
			what          cut
			committed     bool // what must have happened
			notDetermined bool // either may have
		}{
			"before COMMIT":         {what: cutBeforeCommit},
			"at the same moment":    {what: cutWithCommit, notDetermined: true},
			"after COMMIT was done": {what: cutReplyToCommit, committed: true},
		} {
			t.Run(d.name+" "+name, func(t *testing.T) {
				t.Parallel()
				direct, dsn := d.migrated(t)
				execute(t, direct, "CREATE TABLE charges (order_id VARCHAR(40) NOT NULL)")
				proxy, through := proxied(t, d, dsn)
				db := d.open(t, through)
				s := d.store(t, db)
				for i := range rounds {
					order := fmt.Sprintf("order-%d", i)
					claim, err := s.Claim(t.Context(), order)
					if err != nil {
						t.Fatal(err)
					}
					proxy.next.Store(int32(c.what))
					err = claim.InTx(t.Context(), db, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(t.Context(), "INSERT INTO charges VALUES ('"+order+"')")
						return err
					})
					charged := count(t, direct, "SELECT COUNT(*) FROM charges WHERE order_id = '"+order+"'")
					switch {
					case err == nil && charged != 1:
						t.Fatalf("%s: InTx said committed, there are %d charges", order, charged)
					case err != nil && charged != 0:
						t.Fatalf("%s: InTx said %v, there are %d charges", order, err, charged)
					case err != nil && !errors.Is(err, store.ErrRetryTx):
						t.Fatalf("%s: InTx: %v, want ErrRetryTx", order, err)
					case !c.notDetermined && c.committed != (err == nil):
						t.Fatalf("%s: InTx: %v, want committed: %v", order, err, c.committed)
					}
					if record, err := s.Get(t.Context(), order); err != nil || record.Confirmed != (charged == 1) {
						t.Fatalf("%s: record %+v, %v; want confirmed exactly if charged (%d)", order, record, err, charged)
					}
				}
				if n := proxy.cuts.Load(); n != rounds {
					t.Errorf("%d connections were cut, want %d: this test showed less than it claims", n, rounds)
				}
			})
		}
	}
}

// The database goes away during COMMIT and stays away: that is said, and said in time.
func TestInTxSaysThatItDoesNotKnowWhenTheDatabaseStaysAway(t *testing.T) {
	for _, d := range []database{postgresDB, mariaDB, mySQL} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := d.migrated(t)
			proxy, through := proxied(t, d, dsn)
			db := d.open(t, through)
			s := d.store(t, db, store.WithTimeout(time.Second))
			claim, err := s.Claim(t.Context(), "order-1")
			if err != nil {
				t.Fatal(err)
			}
			proxy.next.Store(int32(cutReplyToCommit))
			err = claim.InTx(t.Context(), db, func(*sql.Tx) error {
				return proxy.listener.Close() // no new connections
			})
			if !errors.Is(err, store.ErrCommitUnknown) {
				t.Errorf("InTx: %v, want ErrCommitUnknown", err)
			}
		})
	}
}

// PostgreSQL undoes at COMMIT what it cannot serialize, and what a deferred constraint refuses in the same way.
func TestATransactionThatIsUndoneAtItsCommitMayBeRepeated(t *testing.T) {
	t.Parallel()
	db, _ := postgresDB.migrated(t)
	execAll(t, db,
		"CREATE TABLE charges (order_id text NOT NULL)",
		"CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '40001'; END $$",
		"CREATE CONSTRAINT TRIGGER undo AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION undo()")
	claim, err := postgresDB.store(t, db).Claim(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	charge := func() error {
		return claim.InTx(t.Context(), db, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO charges VALUES ('order-1')")
			return err
		})
	}
	if err := charge(); !errors.Is(err, store.ErrRetryTx) {
		t.Errorf("InTx: %v, want ErrRetryTx", err)
	}
	if n := count(t, db, "SELECT COUNT(*) FROM charges"); n != 0 {
		t.Errorf("%d charges after a transaction that was undone", n)
	}
	execute(t, db, "DROP TRIGGER undo ON charges")
	if err := charge(); err != nil {
		t.Errorf("InTx again: %v", err)
	}
	if n := count(t, db, "SELECT COUNT(*) FROM charges"); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}
