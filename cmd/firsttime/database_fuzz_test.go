package main

import (
	"strings"
	"testing"
)

// Whatever is around a password, no part of it is printed, neither in an error nor in a database's name.
func FuzzDSN(f *testing.F) {
	const first, second = "vorderer", "hinterer" // of the password; neither is a word of an error
	forms := []string{
		"postgres://USER:PASSWORD@HOST/REST", "postgresql://USER@HOST/REST&password=PASSWORD",
		"mysql://USER:PASSWORD@HOST/REST", "mysql://USER:PASSWORD@tcp(HOST)/REST", "mariadb://USER:PASSWORD@HOST/REST",
		"USER:PASSWORD@tcp(HOST)/REST", "USER:PASSWORD@HOST/REST", "postgres:host=HOST user=USER password=PASSWORD REST",
	}
	f.Fuzz(func(t *testing.T, form uint8, user, between, host, rest string) {
		// A file's path and a scheme are no secrets, wherever somebody puts a password.
		if strings.HasPrefix(user, "sqlite:") {
			return
		}
		dsn := strings.NewReplacer("USER", user, "PASSWORD", first+between+second, "HOST", host, "REST", rest).
			Replace(forms[int(form)%len(forms)])
		db, err := openDatabase(dsn)
		text := db.name
		if err != nil {
			text = err.Error()
		} else {
			defer db.Close()
		}
		if strings.Contains(text, first) || strings.Contains(text, second) {
			t.Errorf("%q: %s", dsn, text)
		}
	})
}

// What is no DSN at all is refused, not a panic.
func FuzzOpenDatabase(f *testing.F) {
	f.Fuzz(func(t *testing.T, dsn string) {
		db, err := openDatabase(dsn)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: an error of more than one line: %v", dsn, err)
			}
			return
		}
		defer db.Close()
		if db.name == "" || db.dialect == nil {
			t.Errorf("%q: name %q, dialect %v", dsn, db.name, db.dialect)
		}
	})
}
