// System calls of arm64 besides the common ones.

package fusefs

import "golang.org/x/sys/unix"

const sysOpen = -1

// oldPathCalls is like pathCalls.
var oldPathCalls = []int{unix.SYS_NEWFSTATAT, unix.SYS_RENAMEAT}
