//go:build !race

// Tells that the race detector is off.

package core

const raceEnabled = false
