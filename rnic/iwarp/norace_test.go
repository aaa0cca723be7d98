// Built without the race detector.

//go:build !race

package iwarp

const raceEnabled = false
