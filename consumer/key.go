package consumer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Envelope is a message that knows its id.
type Envelope interface{ MessageID() string }

// MessageID is the key of a message that knows its id.
func MessageID[M Envelope](message M) string { return message.MessageID() }

// Prefixed puts prefix before the keys that key makes, for keys of several kinds in one scope. A message
// without a key still has none.
func Prefixed[M any](prefix string, key func(M) string) func(M) string {
	return func(message M) string {
		k := key(message)
		if k == "" {
			return ""
		}
		return prefix + k
	}
}

// Hashed makes keys of 64 bytes out of those that key makes, by SHA-256: for keys that may be longer than
// a store takes, or that people who read the table must not see. (What can be guessed is not hidden by it:
// a card number, for example.) A message without a key still has none.
func Hashed[M any](key func(M) string) func(M) string {
	return func(message M) string { return Hash(key(message)) }
}

// Join makes one key of several fields, divided by slashes. Different fields make different keys: slashes
// and backslashes in them are escaped. If one of them is empty there is no key, and "" is returned.
func Join(fields ...string) string {
	for _, field := range fields {
		if field == "" {
			return ""
		}
	}
	escaped := make([]string, len(fields))
	for i, field := range fields {
		escaped[i] = escapeKey.Replace(field)
	}
	return strings.Join(escaped, "/")
}

var escapeKey = strings.NewReplacer(`\`, `\\`, `/`, `\/`)

// Hash makes one key of several fields by SHA-256, in 64 hexadecimal digits. If one of them is empty there
// is no key, and "" is returned.
func Hash(fields ...string) string {
	h := sha256.New()
	for _, field := range fields {
		if field == "" {
			return ""
		}
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		h.Write(length[:])
		h.Write([]byte(field))
	}
	if len(fields) == 0 {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
