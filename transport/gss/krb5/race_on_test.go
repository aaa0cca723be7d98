// Whether the race detector is on.

//go:build race

package krb5

const raceEnabled = true
