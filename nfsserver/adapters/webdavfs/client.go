// An export as a WebDAV file system.

package webdavfs

import (
	"context"
	"io/fs"
	"path"

	"golang.org/x/net/webdav"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/clientfs"
)

// FromClient returns an export as a file system for a webdav.Handler. The context of each call
// bounds the call, and the use of the file that it opens.
func FromClient(export *nfsclient.FS) webdav.FileSystem { return client{export} }

// A client adapts an export to webdav.FileSystem.
type client struct{ export *nfsclient.FS }

// clean returns a path without the slash that WebDAV clients write after collections.
func clean(name string) string { return path.Clean("/" + name) }

func (c client) at(ctx context.Context) *clientfs.FS { return clientfs.New(ctx, c.export) }

func (c client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.at(ctx).Mkdir(clean(name), perm)
}

func (c client) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (webdav.File, error) {
	f, err := c.at(ctx).Open(clean(name), flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c client) RemoveAll(ctx context.Context, name string) error {
	return c.at(ctx).RemoveAll(clean(name))
}

func (c client) Rename(ctx context.Context, from, to string) error {
	return c.at(ctx).Rename(clean(from), clean(to))
}

func (c client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return c.at(ctx).Stat(clean(name))
}
