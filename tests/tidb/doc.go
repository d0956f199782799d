// Package tidb runs the conformance suite on TiDB, embedded with its in-memory mock of TiKV. It is a module of its
// own, outside CI: TiDB takes minutes to compile.
package tidb
