// The umask of this process, which commands apply to what they make on a server.

package cli

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Umask returns the permission bits that new files and directories do not get.
// The kernel is asked for it where it has a way; elsewhere the only way to read it
// is to set it, which no file must be made beside.
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
