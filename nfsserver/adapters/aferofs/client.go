// An export as a file system of afero.

package aferofs

import (
	"context"
	"io/fs"
	"os"

	"github.com/spf13/afero"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/clientfs"
)

// FromClient returns an export as a file system, with symbolic links. ctx bounds all its calls.
func FromClient(ctx context.Context, export *nfsclient.FS) afero.Fs {
	return &client{FS: clientfs.New(ctx, export), name: export.Path()}
}

// A client is an export; name is its path on the server.
type client struct {
	*clientfs.FS
	name string
}

var _ afero.Symlinker = (*client)(nil)

func (c *client) Name() string { return "nfs:" + c.name }

func (c *client) Create(name string) (afero.File, error) {
	return c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (c *client) Open(name string) (afero.File, error) { return c.OpenFile(name, os.O_RDONLY, 0) }

func (c *client) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	f, err := c.FS.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c *client) LstatIfPossible(name string) (fs.FileInfo, bool, error) {
	info, err := c.Lstat(name)
	return info, true, err
}

func (c *client) SymlinkIfPossible(target, name string) error { return c.Symlink(target, name) }

func (c *client) ReadlinkIfPossible(name string) (string, error) { return c.Readlink(name) }
