// System calls that arm64 has beside those of all machines.

package fusefs

import "golang.org/x/sys/unix"

const sysOpen = -1

// oldPathCalls are as pathCalls.
var oldPathCalls = []int{unix.SYS_NEWFSTATAT, unix.SYS_RENAMEAT}
