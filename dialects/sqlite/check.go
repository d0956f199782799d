package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/firsttime-go/firsttime/dialects"
)

// What the catalog says of a table that our migrations made.
var columns = []string{
	"scope TEXT not null", "message_id TEXT not null", "state TEXT not null", "claimed_by TEXT not null",
	"attempts INTEGER not null", "recorded_at INTEGER not null", "leased_until INTEGER not null", "confirmed_at INTEGER",
	"expires_at INTEGER not null",
}

const recommendedDSN = "open it with file:PATH?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"

func (d *dialect) Check(ctx context.Context, db *sql.DB, _ dialects.StatementMode) (dialects.Findings, error) {
	var (
		f                         dialects.Findings
		version, file, journal    string
		busy, synchronous, strict int
		table                     int
	)
	err := db.QueryRowContext(ctx, `SELECT sqlite_version(), (SELECT file FROM pragma_database_list WHERE name = 'main'),
	(SELECT journal_mode FROM pragma_journal_mode), (SELECT timeout FROM pragma_busy_timeout),
	(SELECT synchronous FROM pragma_synchronous),
	(SELECT count(*) FROM pragma_table_list WHERE name = 'firsttime_keys' AND schema = 'main'),
	(SELECT count(*) FROM pragma_table_list WHERE name = 'firsttime_keys' AND schema = 'main' AND strict AND wr)`).
		Scan(&version, &file, &journal, &busy, &synchronous, &table, &strict)
	if err != nil {
		return nil, d.Normalize(err)
	}
	f.Note("library", "SQLite %s", version)
	checkFile(&f, file, networkFileSystem)
	if journal == "wal" {
		f.Note("journal_mode", "WAL")
	} else {
		f.Warn("journal_mode", "it is "+journal+": readers and the writer keep each other waiting", recommendedDSN)
	}
	switch {
	case busy == 0:
		f.Fault("busy_timeout", "it is 0: whoever finds another writer fails at once", recommendedDSN)
	case busy < 1000:
		f.Warn("busy_timeout", fmt.Sprintf("it is %d ms: under load writers fail", busy), recommendedDSN)
	default:
		f.Note("busy_timeout", "%d ms", busy)
	}
	if synchronous == 0 {
		f.Fault("synchronous", "it is OFF: a crash of the machine can damage the file", "leave it at its default, or set NORMAL or FULL")
	}
	if db.Stats().MaxOpenConnections != 1 {
		if err := d.checkTxLock(ctx, db, &f); err != nil {
			return nil, d.Normalize(err)
		}
	}
	if table == 0 {
		f.TableMissing(file)
		return f, nil
	}
	if strict == 0 {
		f.Fault("table", "it is not STRICT and WITHOUT ROWID: a key stored once as text and once as a blob would be two keys",
			"rename it and run \"firsttime migrate up\"")
	} else {
		f.Note("table", "in %s", file)
	}
	return f, d.Normalize(checkTable(ctx, db, &f))
}

func checkFile(f *dialects.Findings, file string, fileSystem func(file string) (network string, err error)) {
	if file == "" {
		f.Fault("file", "the keys are in memory, and gone when the process ends", recommendedDSN)
		return
	}
	switch network, err := fileSystem(file); {
	case err != nil:
		f.Note("file", "%s; its file system is not known: %v", file, err)
	case network != "":
		f.Warn("file", file+" is on a network file system ("+network+"), whose locks cannot be trusted",
			"put it on a local disk, or use a server")
	default:
		f.Note("file", "%s", file)
	}
}

// checkTxLock finds out whether a transaction has the write lock from its start.
func (d *dialect) checkTxLock(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	other, err := db.Conn(ctx) // before the transaction: to open it may need the lock
	if err != nil {
		return err
	}
	defer other.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it has changed nothing
	// Whoever has the lock now, a short wait tells; the connection's own time is restored.
	var timeout int
	if err := other.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&timeout); err != nil {
		return err
	}
	defer func() {
		_, _ = other.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", timeout))
	}()
	if _, err := other.ExecContext(ctx, "PRAGMA busy_timeout = 10"); err != nil {
		return err
	}
	_, err = other.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		_, refused := other.ExecContext(ctx, "CREATE TABLE firsttime_check (a)")
		_, err = other.ExecContext(ctx, "ROLLBACK")
		if d.resultCode(refused)&0xff == 8 { // read-only: everybody gets every lock
			return err
		}
		f.Warn("_txlock", "transactions begin without the write lock: one that reads before it writes fails at once when another wrote meanwhile",
			recommendedDSN)
		return err
	}
	if d.resultCode(err)&0xff != 5 {
		return err
	}
	f.Note("_txlock", "immediate")
	return nil
}

func checkTable(ctx context.Context, db *sql.DB, f *dialects.Findings) error {
	have, err := dialects.Strings(ctx, db, `SELECT name || ' ' || type || CASE WHEN "notnull" THEN ' not null' ELSE '' END
FROM pragma_table_info('firsttime_keys') ORDER BY cid`)
	if err != nil {
		return err
	}
	f.Columns(have, columns)
	key, err := dialects.Strings(ctx, db, `SELECT c.name || CASE WHEN c.coll = 'BINARY' THEN '' ELSE ' COLLATE ' || c.coll END
FROM pragma_index_list('firsttime_keys') AS i, pragma_index_xinfo(i.name) AS c
WHERE i.origin = 'pk' AND c.key ORDER BY c.seqno`)
	if err != nil {
		return err
	}
	f.PrimaryKey(key)
	var expiry bool
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pragma_index_list('firsttime_keys') AS i, pragma_index_xinfo(i.name) AS c
WHERE c.name = 'expires_at' AND c.seqno = 0 AND NOT i.partial)`).Scan(&expiry); err != nil {
		return err
	}
	f.ExpiryIndex(expiry)
	f.Written(dialects.Undone(ctx, db, func(tx *sql.Tx) error {
		for _, statement := range []string{
			`INSERT INTO firsttime_keys (scope, message_id, state, claimed_by, attempts, recorded_at, leased_until, expires_at)
VALUES ('firsttime check', hex(randomblob(16)), 'CLAIMED', 'check', 1, 0, 0, 0)`,
			`UPDATE firsttime_keys SET attempts = 2 WHERE scope = 'firsttime check'`,
			`DELETE FROM firsttime_keys WHERE scope = 'firsttime check'`,
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}), "make the file and its folder writable for this user, and open it without mode=ro")
	return nil
}

func (d *dialect) Clock(ctx context.Context, db *sql.DB) (us int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)").Scan(&us)
	return us, d.Normalize(err)
}

func (d *dialect) Size(ctx context.Context, db *sql.DB) (s dialects.Size, err error) {
	err = db.QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN name = 'firsttime_keys' THEN pgsize END), 0),
	COALESCE(SUM(CASE WHEN name <> 'firsttime_keys' THEN pgsize END), 0)
FROM dbstat WHERE name IN ('firsttime_keys', 'firsttime_keys_expires_at')`).Scan(&s.Table, &s.Index)
	if err == nil && s.Table == 0 { // an empty table has a page
		err = dialects.ErrNotMigrated
	}
	return s, d.Normalize(err)
}
