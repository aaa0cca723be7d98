// Built with the race detector.

//go:build race

package iwarp

const raceEnabled = true
