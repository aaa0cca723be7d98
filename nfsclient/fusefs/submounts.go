// What is mounted on files of this machine, which a name that the kernel is told to forget would
// take with it.

package fusefs

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// mountedNames are the names, without their directories, of all that something is mounted on in
// this process's mount namespace. More than those in one mount do no harm: the names are left to
// time out.
func mountedNames() map[string]bool {
	text, _ := os.ReadFile("/proc/self/mountinfo") // without it nothing is known to be mounted
	names := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			names[path.Base(unescapeMount(fields[4]))] = true
		}
	}
	return names
}

// unescapeMount reads a path of mountinfo, in which some bytes are three octal digits after a
// backslash.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
