// The tests run without the race detector.

//go:build !race

package sim

const raceOn = false
