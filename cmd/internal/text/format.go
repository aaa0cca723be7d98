// Formats of sizes, types, modes and counts.

// Package text formats the output of commands like coreutils: names, sizes, modes, owners, columns.
package text

import (
	"fmt"
	"io/fs"
	"strconv"
)

// Plural returns n and a noun, with an s unless n is 1.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Size formats a number of bytes in the largest binary unit that is not above it.
func Size(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}

// TypeName returns a file type in words, mainly for JSON.
func TypeName(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "regular file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeNamedPipe:
		return "FIFO"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeDevice:
		return "block device"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "character device"
	}
	return "file of unknown type"
}

// FileType returns coreutils' name of a file type.
func FileType(m fs.FileMode, size int64) string {
	switch m.Type() {
	case 0:
		if size == 0 {
			return "regular empty file"
		}
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeDevice:
		return "block special file"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "character special file"
	}
	return TypeName(m)
}

// ModeString formats mode bits like ls -l.
func ModeString(m fs.FileMode) string {
	t := map[fs.FileMode]byte{fs.ModeDir: 'd', fs.ModeSymlink: 'l', fs.ModeNamedPipe: 'p', fs.ModeSocket: 's',
		fs.ModeDevice: 'b', fs.ModeDevice | fs.ModeCharDevice: 'c'}[m.Type()]
	if t == 0 {
		t = '-'
	}
	b := append([]byte{t}, m.Perm().String()[1:]...)
	special := func(i int, bit fs.FileMode, set, unset byte) {
		if m&bit == 0 {
			return
		}
		if b[i] == 'x' {
			b[i] = set
		} else {
			b[i] = unset
		}
	}
	special(3, fs.ModeSetuid, 's', 'S')
	special(6, fs.ModeSetgid, 's', 'S')
	special(9, fs.ModeSticky, 't', 'T')
	return string(b)
}

// HumanSize formats a size in at most four characters, rounded up, as with -h.
func HumanSize(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	const units = "KMGTPE"
	unit, u := uint64(1024), 0
	for u < len(units)-1 && (n-1)/unit+1 >= 1024 {
		unit, u = unit*1024, u+1
	}
	whole, rest := n/unit, n%unit
	if whole < 10 {
		tenths := (rest*10 + unit - 1) / unit // rounded up; unit is at most 2^60
		if whole, tenths = whole+tenths/10, tenths%10; whole < 10 {
			return fmt.Sprintf("%d.%d%c", whole, tenths, units[u])
		}
		rest = 0
	}
	if rest > 0 {
		whole++
	}
	return fmt.Sprintf("%d%c", whole, units[u])
}
