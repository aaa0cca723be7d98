// How sizes, types, modes and counts are written.

package main

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"
)

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size writes octets in the largest binary unit that leaves at least one.
func size(n uint64) string {
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

func typeName(m fs.FileMode) string {
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

// fileType is what coreutils call a type of file.
func fileType(m fs.FileMode, size int64) string {
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
	return typeName(m)
}

// modeString writes mode bits the way ls -l does.
func modeString(m fs.FileMode) string {
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

// printable replaces control characters, with which a server could write on the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}
