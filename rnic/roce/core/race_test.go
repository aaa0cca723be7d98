//go:build race

// Tells that the race detector is on.

package core

const raceEnabled = true
