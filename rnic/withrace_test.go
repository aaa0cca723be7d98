// Built with the race detector.

//go:build race

package rnic

const raceEnabled = true
