// Whether the race detector is on.

//go:build !race

package gss

const raceEnabled = false
