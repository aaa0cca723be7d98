//go:build !race

// Reports that the race detector is off.

package core

const raceEnabled = false
