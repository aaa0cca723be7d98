// An export as a file system of go-billy.

package billyv5

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/helper/chroot"
	"github.com/go-git/go-billy/v5/util"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/clientfs"
)

// FromClient returns an export as a file system. ctx bounds all its calls. Parent directories are
// made as go-billy requires, with mode 0755. Lock excludes only files in the same file system, and
// is invisible to other processes.
func FromClient(ctx context.Context, export *nfsclient.FS) billy.Filesystem {
	return chroot.New(&client{FS: clientfs.New(ctx, export), locks: newLocks()}, "/")
}

// A client adapts an export to go-billy.
type client struct {
	*clientfs.FS
	locks *locks
}

// A clientFile is an open file of an export.
type clientFile struct {
	*clientfs.File
	locks  *locks
	locked bool // by this file; one goroutine uses Lock, Unlock and Close
}

func (f *clientFile) Lock() error {
	if !f.locked {
		f.locks.lock(f.FH())
		f.locked = true
	}
	return nil
}

func (f *clientFile) Unlock() error {
	if f.locked {
		f.locks.unlock(f.FH())
		f.locked = false
	}
	return nil
}

// Close releases the lock, too.
func (f *clientFile) Close() error {
	err := f.File.Close()
	f.Unlock()
	return err
}

func (c *client) Create(name string) (billy.File, error) {
	return c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (c *client) Open(name string) (billy.File, error) { return c.OpenFile(name, os.O_RDONLY, 0) }

func (c *client) OpenFile(name string, flag int, perm fs.FileMode) (billy.File, error) {
	f, err := c.OpenMaking(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &clientFile{File: f, locks: c.locks}, nil
}

func (c *client) Rename(from, to string) error {
	if err := c.MakeParents(to); err != nil {
		return err
	}
	return c.FS.Rename(from, to)
}

func (c *client) Symlink(target, link string) error {
	if err := c.MakeParents(link); err != nil {
		return err
	}
	return c.FS.Symlink(target, link)
}

func (c *client) TempFile(dir, prefix string) (billy.File, error) {
	return util.TempFile(c, dir, prefix)
}

func (c *client) ReadDir(name string) ([]fs.FileInfo, error) { return c.Infos(name) }
func (c *client) Join(elem ...string) string                 { return filepath.Join(elem...) }

// Capabilities has no locks, because other processes do not see them.
func (c *client) Capabilities() billy.Capability {
	return billy.AllCapabilities &^ billy.LockCapability
}
