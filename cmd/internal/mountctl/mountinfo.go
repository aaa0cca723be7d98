// The mounts of this machine, as /proc/self/mountinfo lists them.

// Package mountctl finds the nfsrdma mounts of this machine and talks to their processes. Each
// process listens on a socket in a directory that only its user can enter.
package mountctl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FSType is our mounts' type in /proc/mounts.
const FSType = "fuse.nfsrdma"

// A Mount is a line of mountinfo.
type Mount struct {
	Source string // SERVER:/export
	Dir    string // the mount point
	Type   string // the file system's type
	Flags  string // ro, nosuid and so on, as in mount(8)
	Minor  int    // minor device number, unique to the mount
	UID    uint32 // the mount's user, for FUSE
}

// mountinfo is the kernel's list of mounts; tests replace it.
var mountinfo = "/proc/self/mountinfo"

// all lists the mounts. Mounts on one directory appear in the order of their creation.
func all() ([]Mount, error) {
	b, err := os.ReadFile(mountinfo)
	if err != nil {
		return nil, err
	}
	var list []Mount
	for line := range strings.Lines(string(b)) {
		if m, ok := parseLine(line); ok {
			list = append(list, m)
		}
	}
	return list, nil
}

// parseLine reads one line: ID parent dev root dir flags [tags…] - type source options
// (proc_pid_mountinfo(5)).
func parseLine(line string) (m Mount, ok bool) {
	before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	f, g := strings.Split(before, " "), strings.SplitN(after, " ", 3)
	if !ok || len(f) < 6 || len(g) < 3 {
		return Mount{}, false
	}
	_, minor, _ := strings.Cut(f[2], ":")
	m = Mount{Source: unescape(g[1]), Dir: unescape(f[4]), Type: g[0], Flags: f[5]}
	var err error
	if m.Minor, err = strconv.Atoi(minor); err != nil {
		return Mount{}, false
	}
	for opt := range strings.SplitSeq(g[2], ",") {
		if v, ok := strings.CutPrefix(opt, "user_id="); ok {
			n, _ := strconv.ParseUint(v, 10, 32)
			m.UID = uint32(n)
		}
		if opt == "ro" && !slices.Contains(strings.Split(m.Flags, ","), "ro") {
			m.Flags = "ro," + m.Flags
		}
	}
	return m, true
}

// unescape decodes \ooo, the kernel's form of spaces and the like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// List returns the nfsrdma mounts.
func List() ([]Mount, error) {
	list, err := all()
	return slices.DeleteFunc(list, func(m Mount) bool { return m.Type != FSType }), err
}

// At returns the mount on a directory, of any type: the last mount of several.
func At(dir string) (Mount, bool, error) {
	list, err := all()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Dir == dir {
			return list[i], true, nil
		}
	}
	return Mount{}, false, err
}

// Listed returns the nfsrdma mount with a device number, if this namespace has it.
func Listed(dev uint64) (Mount, bool) {
	list, _ := List()
	for _, m := range list {
		if m.Minor == int(unix.Minor(dev)) {
			return m, true
		}
	}
	return Mount{}, false
}

// Find returns the nfsrdma mount that the user names by its directory or its source.
func Find(arg string) (Mount, error) {
	dir, err := Resolve(arg)
	if err != nil {
		dir = arg // a source is no path, and a dead mount's parents may be unreadable
	}
	m, ok, err := At(dir)
	if err != nil {
		return Mount{}, err
	}
	if ok && m.Type == FSType {
		return m, nil
	}
	ours, err := List()
	if err != nil {
		return Mount{}, err
	}
	ours = slices.DeleteFunc(ours, func(m Mount) bool { return m.Source != arg })
	switch {
	case len(ours) == 1:
		return ours[0], nil
	case len(ours) > 1:
		return Mount{}, fmt.Errorf("%s: mounted on %s and %s: name the directory", arg, ours[0].Dir, ours[1].Dir)
	case ok:
		return Mount{}, fmt.Errorf("%s: a mount of type %s, not one of nfsrdma: use umount(8)", arg, m.Type)
	}
	return Mount{}, fmt.Errorf("%s: not mounted; nfsrdma mount lists what is", arg)
}

// Resolve returns the absolute path of a mount point without symbolic links, as the kernel lists
// it. It does not access the mounted file system, so its server need not answer.
func Resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, ok, err := At(abs); err != nil || ok {
		return abs, err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	inner := filepath.Join(parent, filepath.Base(abs))
	if _, ok, err := At(inner); err != nil || ok {
		return inner, err
	}
	return filepath.EvalSymlinks(inner)
}
