//go:build !race

// raceEnabled reports whether the race detector runs.

package fuseloop

const raceEnabled = false
