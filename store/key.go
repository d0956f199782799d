package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxKeyLen is the length of the longest key in bytes.
	MaxKeyLen = 255
	// MaxScopeLen is the length of the longest name of a scope in bytes.
	MaxScopeLen = 64
)

// ValidateKey returns nil if key can be stored, and otherwise an error that matches ErrInvalidKey and
// says why not.
func ValidateKey(key string) error {
	if err := validateText(key, MaxKeyLen); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidKey, err)
	}
	return nil
}

func validateScope(name string) error {
	if err := validateText(name, MaxScopeLen); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidScope, err)
	}
	return nil
}

// validateText checks what all three databases can store and compare byte by byte.
func validateText(s string, maxLen int) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case len(s) > maxLen:
		return fmt.Errorf("it has %d bytes, at most %d are allowed (store a hash of it instead)", len(s), maxLen)
	case !utf8.ValidString(s):
		return errors.New("it is not valid UTF-8 (encode binary data as hex or base64)")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("it contains a NUL byte")
	}
	return nil
}
