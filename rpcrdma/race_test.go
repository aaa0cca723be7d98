//go:build race

// Tells that the race detector is on.

package rpcrdma

const raceEnabled = true
