// The tests run with the race detector.

//go:build race

package hostile

const raceOn = true
