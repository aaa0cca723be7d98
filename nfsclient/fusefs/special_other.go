// System calls of machines of which no more is known: walks of others than pathCalls need all rights.

//go:build !amd64 && !arm64

package fusefs

const sysOpen = -1

// oldPathCalls are as pathCalls.
var oldPathCalls []int
