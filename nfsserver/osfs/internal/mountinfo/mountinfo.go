// Package mountinfo reads the text of /proc/self/mountinfo, the mount table of a process
// (proc_pid_mountinfo(5)).
package mountinfo

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An Entry is a line of the mount table.
type Entry struct {
	ID      int    // of the mount; the kernel reuses it
	Device  uint64 // of the file system, as in st_dev, unless that is of a subvolume
	Point   string // the path of the mount point, as this process sees it
	Type    string // of the file system
	Source  string // a device, a directory or a name
	Options string // of the file system
}

// Parse returns the entries of a table in its order, which is the order in which they were mounted.
// It skips lines that are no entries.
func Parse(text string) (all []Entry) {
	for line := range strings.Lines(text) {
		// id parent major:minor root point options [tag...] - fstype source superoptions
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		if id, err := strconv.Atoi(l[0]); err == nil {
			all = append(all, Entry{id, device(l[2]), unescape(l[4]), r[0], unescape(r[1]), unescape(r[2])})
		}
	}
	return all
}

// device returns the number of a device given as major:minor.
func device(s string) uint64 {
	major, minor, _ := strings.Cut(s, ":")
	hi, _ := strconv.ParseUint(major, 10, 32)
	lo, _ := strconv.ParseUint(minor, 10, 32)
	return unix.Mkdev(uint32(hi), uint32(lo))
}

// unescape replaces the octal escapes of blanks, newlines and backslashes, such as \040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
