package faults

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"
)

// Claims, heartbeats, and transactions with their confirms share one connection: they wait for each other, and never
// for themselves.
func TestNothingIsLostOrDoubledWithAPoolOfOneConnection(t *testing.T) {
	const fault = "eight consumers share one connection"
	for _, d := range everyDatabase() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			prove(t, fault, d.name, func(t *testing.T) outcome {
				s := sharedSite(t, d)
				// Eight of them take longer than it takes until a heartbeat is due.
				s.charge = charging(500, lease/20)
				l := startLoad(t, s, func(db *sql.DB) { db.SetMaxOpenConns(1) })
				o := l.finish()
				o.figures = map[string]int{"heartbeats": l.seen.heartbeats()}
				if l.seen.heartbeats() == 0 {
					t.Error("no lease was extended: this showed less than it claims")
				}
				return o
			})
		})
	}
}

// A file of SQLite can only be read for a while: its connections are made anew in that mode, as after a change of its
// permissions or of its file system.
func TestNothingIsLostOrDoubledWhenAFileIsReadOnly(t *testing.T) {
	t.Parallel()
	prove(t, readOnly().name, "SQLite", func(t *testing.T) outcome {
		s := sharedSite(t, sqliteDB)
		p := &permissions{site: s}
		db := sql.OpenDB(p)
		db.SetConnMaxLifetime(20 * time.Millisecond)
		t.Cleanup(func() { db.Close() })
		l := startLoadOn(t, s, db)
		l.disturb(strikes(), func() {
			p.readOnly.Store(true)
			time.Sleep(refusal)
			p.readOnly.Store(false)
		})
		o := l.finish()
		met := l.seen.of("8")
		o.figures = map[string]int{"strikes": strikes(), "errors": met}
		if met == 0 {
			t.Error("no consumer met error 8: this showed less than it claims")
		}
		return o
	})
}

// permissions connects to a file as its permissions allow.
type permissions struct {
	site     *site
	readOnly atomic.Bool
}

func (p *permissions) Driver() driver.Driver { return p.site.direct.Driver() }

func (p *permissions) Connect(context.Context) (driver.Conn, error) {
	if p.readOnly.Load() {
		return p.Driver().Open(p.site.dsn + "&mode=ro")
	}
	return p.Driver().Open(p.site.dsn)
}
