//go:build !race

// Whether the race detector runs.

package fuseloop

const raceEnabled = false
