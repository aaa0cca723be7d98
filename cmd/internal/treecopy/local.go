// The local side of a copy: a directory held by descriptor.

package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// A localDir is a directory held by an O_PATH descriptor. A hostile tree from a server cannot make
// us write through a symbolic link.
type localDir struct {
	fd   int // O_PATH
	self Meta
	text string

	top *localDir // the operand's directory, which stays open; nil in the operand's directory
	rel string    // path from top
}

func openLocalDir(dirfd int, name string, flag int, text string) (*localDir, error) {
	fd, err := openAt(dirfd, name, unix.O_PATH|unix.O_DIRECTORY|flag, 0)
	if err != nil {
		return nil, err
	}
	m, err := statAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &localDir{fd: fd, self: m, text: text, rel: "."}, nil
}

func (d *localDir) Close() error { return unix.Close(d.fd) }

// Commit syncs the file system, once for all files of a tree.
func (d *localDir) Commit() error {
	fd, err := openAt(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

func (d *localDir) Self() *Meta { return &d.self }

func (d *localDir) Text(name string) string { return join(d.text, name) }

func (d *localDir) Above(context.Context) []Meta {
	list := []Meta{d.self}
	up := "."
	for len(list) < 4096 {
		up += "/.."
		m, err := statAt(d.fd, up, 0)
		if err != nil || m.key() == list[len(list)-1].key() {
			break
		}
		list = append(list, m)
	}
	return list
}

// dirBatch is the number of names read from a local directory at a time.
const dirBatch = 1024

func (d *localDir) Entries(context.Context) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		fd, err := openAt(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			yield(Meta{}, err)
			return
		}
		f := os.NewFile(uintptr(fd), d.text)
		defer f.Close()
		for {
			names, err := f.Readdirnames(dirBatch)
			for _, name := range names {
				m, err := statAt(fd, name, unix.AT_SYMLINK_NOFOLLOW)
				if errors.Is(err, fs.ErrNotExist) {
					continue // removed since the listing
				}
				m.Name = name
				if !yield(m, err) {
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Meta{}, err)
				}
				return
			}
		}
	}
}

func (d *localDir) Lstat(_ context.Context, name string) (Meta, error) {
	return statAt(d.fd, name, unix.AT_SYMLINK_NOFOLLOW)
}

func (d *localDir) Stat(_ context.Context, name string) (Meta, error) {
	m, err := statAt(d.fd, name, 0)
	m.followed = true
	return m, err
}

// Follow resolves a chain of links. The target of a /proc/PID/fd link may have no name, or another
// open file may have the name now. So the target is opened through the link.
func (d *localDir) Follow(_ context.Context, name string) (Dir, string, bool, error) {
	dir, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", d.fd))
	if err != nil {
		return nil, "", false, err
	}
	p := join(dir, name)
	for range maxLinks {
		i := strings.LastIndexByte(p, '/')
		if dir, err = filepath.EvalSymlinks(p[:i+1]); err != nil {
			return nil, "", false, err
		}
		base := p[i+1:]
		if p = join(dir, base); strings.HasPrefix(p, "/proc/") {
			return nil, "", true, nil
		}
		target, err := os.Readlink(p)
		if errors.Is(err, unix.EINVAL) {
			to, err := openLocalDir(unix.AT_FDCWD, dir, 0, d.text)
			if err != nil {
				return nil, "", false, err
			}
			to.text = dir
			return to, base, false, nil
		}
		if err != nil {
			return nil, "", false, err
		}
		if p = target; !filepath.IsAbs(target) {
			p = join(dir, target)
		}
	}
	return nil, "", false, unix.ELOOP
}

// maxLinks limits the symbolic links in one path.
const maxLinks = 40

func (d *localDir) Sub(_ context.Context, m Meta) (Dir, error) { return d.sub(m.Name, m.linkFlag()) }

func (d *localDir) sub(name string, flag int) (Dir, error) {
	s, err := openLocalDir(d.fd, name, flag, d.Text(name))
	if err != nil {
		return nil, err
	}
	s.top, s.rel = d.topDir(), join(d.rel, name)
	return s, nil
}

func (d *localDir) topDir() *localDir {
	if d.top != nil {
		return d.top
	}
	return d
}

func (d *localDir) Readlink(_ context.Context, m Meta) (string, error) {
	for n := 512; ; n *= 4 {
		b := make([]byte, n)
		k, err := unix.Readlinkat(d.fd, m.Name, b)
		if err != nil {
			return "", err
		}
		if k < n {
			return string(b[:k]), nil
		}
	}
}

func (d *localDir) Mkdir(_ context.Context, name string, perm fs.FileMode) (Dir, error) {
	if err := unix.Mkdirat(d.fd, name, sysMode(perm)); err != nil {
		return nil, err
	}
	return d.sub(name, unix.O_NOFOLLOW)
}

func (d *localDir) Symlink(ctx context.Context, target, name string) (Meta, error) {
	if err := unix.Symlinkat(target, d.fd, name); err != nil {
		return Meta{}, err
	}
	return d.Lstat(ctx, name)
}

func (d *localDir) Mknod(ctx context.Context, name string, perm fs.FileMode, m Meta) (Meta, error) {
	if err := mknodAt(d.fd, name, perm, m); err != nil {
		return Meta{}, err
	}
	return d.Lstat(ctx, name)
}

// LinkTo starts at the top, because the old name's directory may be closed by now. os.Root keeps
// the path below the top even if directories are moved.
func (d *localDir) LinkTo(_ context.Context, m Meta, to Dir, newName string) error {
	l, ok := to.(*localDir)
	if !ok || l.topDir() != d.topDir() {
		return unix.EXDEV
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", d.topDir().fd))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Link(join(d.rel, m.Name), join(l.rel, newName))
}

func (d *localDir) RenameTo(_ context.Context, name string, to Dir, newName string) error {
	l, ok := to.(*localDir)
	if !ok {
		return unix.EXDEV
	}
	return unix.Renameat(d.fd, name, l.fd, newName)
}

func (d *localDir) Remove(_ context.Context, name string) error {
	return unix.Unlinkat(d.fd, name, 0)
}

func (d *localDir) Rmdir(_ context.Context, name string) error {
	return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR)
}

func (d *localDir) SetAttr(_ context.Context, m Meta, a Attr) error {
	return setAttrAt(d.fd, m.Name, m.Mode.Type() == fs.ModeSymlink, a)
}

// ACLs reads m's ACLs.
func (d *localDir) ACLs(_ context.Context, m Meta) (nfsclient.ACLs, error) {
	path, get := join(procFD(d.fd), m.Name), unix.Lgetxattr
	if m.followed {
		get = unix.Getxattr
	}
	return readACLs(m.Mode.IsDir(), func(attr string, b []byte) (int, error) { return get(path, attr, b) })
}

func (d *localDir) Writable(_ context.Context, m Meta) error {
	return unix.Faccessat(d.fd, m.Name, unix.W_OK, unix.AT_EACCESS)
}

// CaseInsensitive is true without a check: each name is looked up before it is created.
func (d *localDir) CaseInsensitive(context.Context) bool { return true }
