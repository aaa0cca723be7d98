// An export as a file system of go-billy.

package billyv6

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v6"
	"github.com/go-git/go-billy/v6/helper/chroot"
	"github.com/go-git/go-billy/v6/util"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/clientfs"
)

// FromClient returns an export as a file system. ctx bounds all its calls. Parent directories are
// made as go-billy wants it, with mode 0755.
func FromClient(ctx context.Context, export *nfsclient.FS) billy.Filesystem {
	return chroot.New(&client{FS: clientfs.New(ctx, export)}, "/")
}

// A client adapts an export to go-billy.
type client struct {
	*clientfs.FS
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
	return f, nil
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

func (c *client) ReadDir(name string) ([]fs.DirEntry, error) { return c.List(name) }
func (c *client) Join(elem ...string) string                 { return filepath.Join(elem...) }

// Capabilities has no locks.
func (c *client) Capabilities() billy.Capability {
	return billy.AllCapabilities &^ billy.LockCapability
}
