// Local paths.

package treecopy

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// Local is the Tree for local paths.
type Local struct{}

// Stat returns the attributes at a path, as the kernel resolves it.
func (Local) Stat(_ context.Context, path string, follow bool) (Meta, error) {
	flag := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flag = 0
	}
	return statAt(unix.AT_FDCWD, path, flag)
}

// OpenDir opens a directory and follows symbolic links.
func (Local) OpenDir(_ context.Context, path, text string) (Dir, error) {
	d, err := openLocalDir(unix.AT_FDCWD, path, 0, text)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Parent opens the last component's directory.
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

// splitLast splits a path before its last component. It does not interpret ".." and links.
func splitLast(path string) (dir, base string, err error) {
	trimmed := strings.TrimRight(path, "/")
	i := strings.LastIndexByte(trimmed, '/')
	dir, base = trimmed[:i+1], trimmed[i+1:]
	if badName(base) {
		return "", "", unix.EINVAL
	}
	return dir, base, nil
}

// textDir returns the directory part of a path's text. Joining the last component gives the
// original text.
func textDir(text string) string {
	trimmed := strings.TrimRight(text, "/")
	return trimmed[:strings.LastIndexByte(trimmed, '/')+1]
}

// lastName returns the last component of a path, including "." and ".."; "" for a root.
func lastName(path string) string {
	trimmed := strings.TrimRight(path, "/")
	return trimmed[strings.LastIndexByte(trimmed, '/')+1:]
}
