package faults

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fate is what becomes of something that a client sends to its server, and of their connection.
type fate int

const (
	arrives    fate = iota
	cutBefore       // it does not arrive: the connection ends
	cutAfter        // it arrives, and the connection ends before the answer
	goesSilent      // it arrives or not, and from then on nothing does, in neither direction
)

// silence is how long both sides of a silent connection wait before they notice.
const silence = 1500 * time.Millisecond

// proxy stands between a load and its server, delays what is sent, and lets it meet its fate. It is no
// general one, since those do not look for a COMMIT.
type proxy struct {
	server string
	delay  time.Duration // at most
	fate   func(sent []byte) fate
	armed  atomic.Bool  // until then everything arrives
	met    atomic.Int64 // other fates than arriving
}

// interpose leads the load of s through a proxy, to be armed when the load has begun.
func interpose(t *testing.T, s *site, delay time.Duration, fate func(sent []byte) fate) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{delay: delay, fate: fate, server: s.through(t, listener.Addr().String())}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			ended.Go(func() { p.relay(client) })
		}
	})
	t.Cleanup(func() { // after the load's pool is closed
		listener.Close()
		ended.Wait()
	})
	return p
}

func isCommit(sent []byte) bool { return bytes.Contains(bytes.ToLower(sent), []byte("commit")) }

func (p *proxy) relay(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	var silent, muted atomic.Bool // muted: the next answer ends the connection
	end := sync.OnceFunc(func() {
		if silent.Load() {
			time.Sleep(silence) // as long as it takes until somebody notices
		}
		client.Close()
		server.Close()
	})
	var ended sync.WaitGroup
	ended.Go(func() {
		defer end()
		pump(server, func(answer []byte) bool {
			if muted.Load() {
				return false
			}
			if silent.Load() {
				return true // it vanishes
			}
			_, err := client.Write(answer)
			return err == nil
		})
	})
	pump(client, func(sent []byte) bool {
		time.Sleep(rand.N(p.delay))
		fate := arrives
		if p.armed.Load() {
			fate = p.fate(sent)
		}
		if fate != arrives {
			p.met.Add(1)
		}
		switch fate {
		case cutBefore:
			return false
		case cutAfter:
			muted.Store(true)
		case goesSilent:
			silent.Store(true)
			if rand.IntN(2) == 0 {
				return false // and end waits
			}
		}
		if _, err := server.Write(sent); err != nil || fate == goesSilent {
			return false
		}
		return true
	})
	if !muted.Load() { // else the other direction ends it, when the answer is there
		end()
	}
	ended.Wait()
	end()
}

// pump hands on what arrives until the connection ends or handOn says that it is enough.
func pump(from net.Conn, handOn func(chunk []byte) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !handOn(buffer[:n]) {
			return
		}
	}
}
