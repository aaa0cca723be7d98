// The paths of this machine.

package treecopy

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// Local is the Tree of this machine's paths.
type Local struct{}

// Stat describes what is at a path; the kernel resolves it.
func (Local) Stat(_ context.Context, path string, follow bool) (Meta, error) {
	flag := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flag = 0
	}
	return statAt(unix.AT_FDCWD, path, flag)
}

// OpenDir opens a directory, through symbolic links.
func (Local) OpenDir(_ context.Context, path, text string) (Dir, error) {
	d, err := openLocalDir(unix.AT_FDCWD, path, 0, text)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Parent opens the directory of the last component.
func (t Local) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	if path == "" {
		return nil, "", unix.ENOENT
	}
	dir, base, err := splitLast(path)
	if err != nil {
		return nil, "", err
	}
	if dir == "" {
		dir = "."
	}
	d, err := t.OpenDir(ctx, dir, textDir(text))
	return d, base, err
}

// splitLast cuts a path before its last component, as it is written: what ".."
// and links mean is for those who resolve it.
func splitLast(path string) (dir, base string, err error) {
	trimmed := strings.TrimRight(path, "/")
	i := strings.LastIndexByte(trimmed, '/')
	dir, base = trimmed[:i+1], trimmed[i+1:]
	if badName(base) {
		return "", "", unix.EINVAL
	}
	return dir, base, nil
}

// textDir is the text of the directory of a path, so that joining the last
// component to it gives the path as it was written.
func textDir(text string) string {
	trimmed := strings.TrimRight(text, "/")
	return trimmed[:strings.LastIndexByte(trimmed, '/')+1]
}

// lastName is the last component of a path, "." and ".." included; "" for a root.
func lastName(path string) string {
	trimmed := strings.TrimRight(path, "/")
	return trimmed[strings.LastIndexByte(trimmed, '/')+1:]
}
