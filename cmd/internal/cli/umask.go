// The umask of this process, applied to new files on a server.

package cli

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Umask returns the permission bits that new files and directories do not get. Linux shows the
// umask in /proc. Elsewhere a program can read the umask only by setting it, so no file must be
// created in between.
func Umask() fs.FileMode {
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "Umask:"); ok {
				if n, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32); err == nil {
					return fs.FileMode(n) & fs.ModePerm
				}
			}
		}
	}
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return fs.FileMode(m) & fs.ModePerm
}
