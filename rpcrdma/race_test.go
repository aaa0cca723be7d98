//go:build race

// The race detector is on.

package rpcrdma

const raceEnabled = true
