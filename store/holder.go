package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
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
	var token [tokenLen / 2]byte
	rand.Read(token[:]) // never fails
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
