// Built without the race detector.

//go:build !race

package rnic

const raceEnabled = false
