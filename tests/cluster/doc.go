// Package cluster lets consumers on all machines of a cluster claim the same keys, kills its nodes and cuts them
// off while they work, and counts what was done.
package cluster
