//go:build !race

package explore

// defaultFaults lets an exploration end in half a minute.
const defaultFaults = 1
