// Mount points of this machine: forgetting their names in the kernel would unmount them.

package fusefs

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// mountedNames returns the base names of all mount points in this process's mount namespace. Names
// of mount points elsewhere do no harm: equal names in this mount are only left to time out.
func mountedNames() map[string]bool {
	text, _ := os.ReadFile("/proc/self/mountinfo") // on an error assume no mount points
	names := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			names[path.Base(unescapeMount(fields[4]))] = true
		}
	}
	return names
}

// unescapeMount decodes a path of mountinfo: a backslash precedes three octal digits.
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
