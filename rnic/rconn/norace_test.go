//go:build !race

// The race detector is off.

package rconn

const raceEnabled = false
