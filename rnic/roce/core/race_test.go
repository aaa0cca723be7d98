//go:build race

// Reports that the race detector is on.

package core

const raceEnabled = true
