// Package dialects is the seam between the store and SQL: what a database must be able to do
// (Dialect, Queries) and how its answers are told apart (the errors of this package).
//
// The adapters live below it, one per kind of database: postgres, mysql (also MariaDB) and sqlite.
// A program names the one it wants,
//
//	s, err := store.New(db, postgres.Dialect)
//
// or picks it at startup by a name from its configuration, with package all. Importing an adapter
// registers nothing and opens nothing.
//
// Queries is a list of statements and no more. Which of them runs when, and what is tried again, is
// the store's business.
package dialects
