//go:build race

package explore

// defaultFaults is less than it should be: the race detector makes a schedule five times as expensive.
const defaultFaults = 0
