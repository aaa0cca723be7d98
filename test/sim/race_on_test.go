// The tests run with the race detector.

//go:build race

package sim

const raceOn = true
