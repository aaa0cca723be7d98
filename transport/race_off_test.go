// Whether the race detector is on.

//go:build !race

package transport

const raceEnabled = false
