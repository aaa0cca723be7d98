// The suite runs with the race detector, and so do the programs that it builds.

//go:build race

package mount

const raceOn = true
