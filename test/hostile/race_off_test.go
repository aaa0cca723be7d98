// The tests run without the race detector.

//go:build !race

package hostile

const raceOn = false
