package store

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// A holder is what stands in the column claimed_by: the worker's name, a slash, and the claim's token,
// 128 random bits in hex. It fits the column's 128 bytes.
const (
	tokenLen      = 32
	maxWorkerLen  = 128 - 1 - tokenLen
	holderDivider = "/"
)

func newHolder(worker string) string {
	// A token is to be unlike every other, not a secret: it fences off honest workers. math/rand/v2 draws
	// from a generator that the runtime seeds from the system, for a tenth of crypto/rand's price.
	var token [tokenLen / 2]byte
	binary.BigEndian.PutUint64(token[:8], rand.Uint64())
	binary.BigEndian.PutUint64(token[8:], rand.Uint64())
	var text [128]byte
	b := append(text[:0], worker...)
	b = append(b, holderDivider...)
	return string(hex.AppendEncode(b, token[:]))
}

// workerOf is the worker's name in a holder.
func workerOf(holder string) string {
	if i := strings.LastIndex(holder, holderDivider); i >= 0 {
		return holder[:i]
	}
	return holder
}

// defaultWorker is host:pid, cut to what fits.
func defaultWorker() string {
	host, err := os.Hostname()
	if err != nil || validateText(host, MaxKeyLen) != nil {
		host = "unknown"
	}
	pid := fmt.Sprintf(":%d", os.Getpid())
	if room := maxWorkerLen - len(pid); len(host) > room {
		host = strings.ToValidUTF8(host[:room], "")
	}
	return host + pid
}
