// Package faults holds black-box tests in which a load works against a real database while something
// goes wrong, again and again: a server is killed, refuses to write, has no connection left or runs into
// time limits; connections are cut or fall silent. Whatever it is, every message ends up accepted, every
// key confirmed, and every effect is there exactly once.
//
// The load is the same for all faults: messages with duplicates from a broker that delivers at least once,
// and consumers of which half confirm by consumer.InTx and half by Claim.ConfirmTx in a transaction of
// their own. The table of effects has no unique constraint that could hide a second one.
package faults
