//go:build !race

// The race detector is off.

package rpcrdma

const raceEnabled = false
