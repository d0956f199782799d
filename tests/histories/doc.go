// Package histories lets a few concurrent clients work on the same keys at random, on real databases, and
// proves of every such history that it could have happened one step after the other: that there is an order
// of its operations, within the times at which they ran, in which each answer is what the protocol says.
//
//	go test ./tests/histories -histories=20000
package histories
