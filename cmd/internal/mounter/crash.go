// What mounts keep beyond a crash of the machine.

package mounter

import (
	"os"
	"strings"
)

// stateDir is where root's mounts keep which servers may have locks of this machine (file-hierarchy(7)).
const stateDir = "/var/lib/nfsrdma-mount"

// stableDir makes or finds a directory for root alone; "" where there can be none, without which mounts work.
func stableDir(dir string) string {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return ""
	}
	return dir
}

// bootID names this start of the machine (random(4)), "" where the kernel does not say.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
