package tidb

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/store/mockstore"
)

// address is where the server of this process listens.
var address string

func TestMain(m *testing.M) {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run()) // the server is in memory and ends with the process
}

// serve starts TiDB on a free port of 127.0.0.1.
func serve() error {
	storage, err := mockstore.NewMockStore(mockstore.WithStoreType(mockstore.EmbedUnistore))
	if err != nil {
		return err
	}
	session.SetSchemaLease(500 * time.Millisecond)
	session.DisableStats4Test()
	domain, err := session.BootstrapSession(storage)
	if err != nil {
		return err
	}
	c := config.NewConfig()
	c.Host, c.Port, c.Status.ReportStatus, c.Socket = "127.0.0.1", 0, false, ""
	c.Log.Level = "error"
	server.RunInGoTest = true
	server.RunInGoTestChan = make(chan struct{})
	s, err := server.NewServer(c, server.NewTiDBDriver(storage))
	if err != nil {
		return err
	}
	s.SetDomain(domain)
	domain.InfoSyncer().SetSessionManager(s)
	go func() {
		if err := s.Run(nil); err != nil {
			fmt.Fprintln(os.Stderr, "TiDB:", err)
		}
	}()
	<-server.RunInGoTestChan
	address = s.ListenAddr().(*net.TCPAddr).String()
	return nil
}
