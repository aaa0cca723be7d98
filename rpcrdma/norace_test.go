//go:build !race

// Tells that the race detector is off.

package rpcrdma

const raceEnabled = false
