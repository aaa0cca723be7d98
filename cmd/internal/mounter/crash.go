// The state of mounts that survives a crash of the machine.

package mounter

import (
	"os"
	"strings"
)

// stateDir is where root's mounts record which servers may hold locks of this machine
// (file-hierarchy(7)).
const stateDir = "/var/lib/nfsrdma-mount"

// stableDir makes or finds a directory that only root can change. It returns "" if that fails;
// mounts work without the directory.
func stableDir(dir string) string {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return ""
	}
	return dir
}

// bootID identifies this boot (random(4)); "" if the kernel does not report it.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
