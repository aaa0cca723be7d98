//go:build race

// The race detector is on.

package rconn

const raceEnabled = true
