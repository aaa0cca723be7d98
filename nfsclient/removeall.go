// Removing a tree.

package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sync/errgroup"
)

// removeWindow is how many files of one directory are removed at once.
const removeWindow = 32

// RemoveAll removes name and, when it is a directory, all that is below it. A
// name that is not there is no error. A symbolic link is removed itself; a slash
// after name is for directories only.
func (f *FS) RemoveAll(ctx context.Context, name string) error {
	p, err := f.oldName(ctx, name)
	if err == nil && p.slash {
		err = f.refuseSlash(ctx, p)
		if err == syscall.EISDIR {
			err = nil
		}
	}
	if err == nil {
		err = f.removeTree(ctx, p.dir, p.base)
	}
	return pathError("removeall", name, ignoreGone(err))
}

// removeTree removes a name, emptying it first when that proves necessary.
func (f *FS) removeTree(ctx context.Context, dir nfs3.FH, base string) error {
	err := f.remove(ctx, dir, base)
	if !errors.Is(err, nfs3.ErrNotEmpty) && !errors.Is(err, nfs3.ErrExist) {
		return err
	}
	n, err := f.lookup(ctx, dir, base)
	if err != nil {
		return err
	}
	return f.removeDir(ctx, dir, base, n.FH)
}

// removeDir removes the directory base of dir and what is in it. Removing moves
// the cookies of some servers, so it lists again until a whole listing is empty.
func (f *FS) removeDir(ctx context.Context, dir nfs3.FH, base string, fh nfs3.FH) error {
	d := f.At(fh, path.Join(f.path, base))
	for {
		list, err := d.ReadDir(ctx, "/")
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return f.c.Rmdir(ctx, dir, base)
		}
		if err := d.removeEach(ctx, list); err != nil {
			return err
		}
	}
}

// removeEach removes the names of the root in list: files many at once,
// directories one after the other.
func (f *FS) removeEach(ctx context.Context, list []*DirEntry) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(removeWindow)
	var dirs []*DirEntry
	for _, e := range list {
		if e.IsDir() {
			dirs = append(dirs, e)
			continue
		}
		g.Go(func() error { return ignoreGone(f.c.Remove(gctx, f.root, e.name)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, e := range dirs {
		if err := ignoreGone(f.removeDir(ctx, f.root, e.name, e.node.FH)); err != nil {
			return err
		}
	}
	return nil
}

// ignoreGone makes nothing of a name that someone else has removed.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
