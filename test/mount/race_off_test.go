// The suite runs without the race detector.

//go:build !race

package mount

const raceOn = false
