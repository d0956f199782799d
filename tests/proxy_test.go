package tests

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// cut says what a proxy does to the connection that sends a COMMIT.
type cut int32

const (
	cutNothing       cut = iota
	cutBeforeCommit      // the server never sees it
	cutWithCommit        // the server gets it, and the connection ends at the same moment
	cutReplyToCommit     // the server answers it, and the answer is lost
)

// proxy stands between a pool and its server and cuts connections at their COMMIT.
type proxy struct {
	listener net.Listener
	server   string
	next     atomic.Int32 // the cut for the next COMMIT
	cuts     atomic.Int32
	blocked  atomic.Bool // nothing gets through, and no new connection
	links    sync.Map    // of the connections that are open
}

// block lets the server vanish: what is sent to it gets no answer, and new connections end.
func (p *proxy) block() { p.blocked.Store(true) }

// unblock lets it come back. The connections that were blocked are gone.
func (p *proxy) unblock() {
	p.blocked.Store(false)
	p.links.Range(func(client, _ any) bool {
		client.(net.Conn).Close()
		return true
	})
}

// proxied starts a proxy before the server of dsn and returns the DSN that leads through it.
func proxied(t *testing.T, d database, dsn string) (*proxy, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener}
	t.Cleanup(func() { listener.Close() })
	through := listener.Addr().String()
	if d.driver == "mysql" {
		dsn = withConfig(t, dsn, func(c *mysql.Config) { p.server, c.Addr = c.Addr, through })
	} else {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		p.server, u.Host = u.Host, through
		dsn = u.String()
	}
	go p.serve()
	return p, dsn
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err == nil && p.blocked.Load() {
			server.Close()
			err = net.ErrClosed
		}
		if err != nil {
			client.Close()
			continue
		}
		go p.relay(client, server)
	}
}

func (p *proxy) relay(client, server net.Conn) {
	var once sync.Once
	end := func() { once.Do(func() { client.Close(); server.Close() }) }
	defer end()
	p.links.Store(client, true)
	defer p.links.Delete(client)
	var muted atomic.Bool // the answers are kept from the client
	go func() {
		defer end()
		buffer := make([]byte, 32<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || muted.Load() {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if p.blocked.Load() {
			continue // until unblock closes it, or the client gives up
		}
		what := cutNothing
		if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit")) {
			what = cut(p.next.Swap(int32(cutNothing)))
		}
		if what != cutNothing {
			p.cuts.Add(1)
		}
		if what == cutBeforeCommit {
			return
		}
		muted.Store(what == cutReplyToCommit)
		if _, err := server.Write(buffer[:n]); err != nil || what == cutWithCommit {
			return
		}
		if what == cutReplyToCommit {
			_, _ = io.Copy(io.Discard, client) // until the other direction has seen the answer and ends
			return
		}
	}
}
