// The remote side of a copy: a directory on a server.

package main

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// remoteDir is a directory on a server: an FS whose root it is.
type remoteDir struct{ fsys *nfsclient.FS }

func (d remoteDir) close() error { return nil }

func remoteMeta(name string, n nfsclient.Node) meta {
	return meta{
		name: name, mode: nfsclient.GoMode(n.Attr.Type, n.Attr.Mode), size: int64(n.Attr.Size),
		atime: n.Attr.Atime.Time(), mtime: n.Attr.Mtime.Time(), fh: n.FH,
	}
}

func (d remoteDir) entries(ctx context.Context) iter.Seq2[meta, error] {
	return func(yield func(meta, error) bool) {
		for e, err := range d.fsys.Entries(ctx, "/") {
			if err != nil {
				yield(meta{}, err)
				return
			}
			n, err := e.Node()
			if errors.Is(err, fs.ErrNotExist) {
				continue // gone since it was listed
			}
			if err != nil {
				yield(meta{}, err)
				return
			}
			if !yield(remoteMeta(e.Name(), n), nil) {
				return
			}
		}
	}
}

// handle is the handle of m, asked for when the listing has not brought it.
func (d remoteDir) handle(ctx context.Context, m meta) (nfs3.FH, error) {
	if m.fh.Len() > 0 {
		return m.fh, nil
	}
	n, err := d.fsys.Client().Lookup(ctx, d.fsys.Root(), m.name)
	return n.FH, err
}

func (d remoteDir) sub(ctx context.Context, m meta) (dir, error) {
	fh, err := d.handle(ctx, m)
	if err != nil {
		return nil, err
	}
	return d.at(fh, m.name), nil
}

func (d remoteDir) at(fh nfs3.FH, name string) remoteDir {
	return remoteDir{d.fsys.At(fh, path.Join(d.fsys.Path(), name))}
}

func (d remoteDir) open(ctx context.Context, m meta) (source, error) {
	fh, err := d.handle(ctx, m)
	if err != nil {
		return nil, err
	}
	return d.fsys.OpenNode(ctx, fh, m.name, os.O_RDONLY), nil
}

func (d remoteDir) readlink(ctx context.Context, m meta) (string, error) {
	fh, err := d.handle(ctx, m)
	if err != nil {
		return "", err
	}
	return d.fsys.Client().Readlink(ctx, fh)
}

func (d remoteDir) mkdir(ctx context.Context, name string, perm fs.FileMode) (dir, error) {
	c := d.fsys.Client()
	attr := nfs3.Sattr{SetMode: true, Mode: nfsclient.WireMode(perm & fs.ModePerm)}
	n, err := c.Mkdir(ctx, d.fsys.Root(), name, attr)
	if errors.Is(err, fs.ErrExist) {
		n, err = c.Lookup(ctx, d.fsys.Root(), name)
		if err == nil && n.Attr.Type != nfs3.TypeDir {
			err = &nfsclient.StatusError{Proc: nfs3.ProcMkdir, Status: nfs3.ErrExist}
		}
	}
	if err != nil {
		return nil, err
	}
	return d.at(n.FH, name), nil
}

// remoteSink is a file being written on a server.
type remoteSink struct {
	*nfsclient.File
	c *nfsclient.Client
}

func (d remoteDir) create(ctx context.Context, m meta) (sink, error) {
	return d.createFile(ctx, m, os.O_WRONLY)
}

func (d remoteDir) createFile(ctx context.Context, m meta, flag int) (*remoteSink, error) {
	c := d.fsys.Client()
	attr := nfs3.Sattr{SetMode: true, Mode: nfsclient.WireMode(m.mode.Perm() | 0o200), SetSize: true}
	n, err := c.Create(ctx, d.fsys.Root(), m.name, nfs3.Unchecked, attr, nfs3.Verf{})
	if err == nil && n.Attr.Type != nfs3.TypeReg {
		err = &nfsclient.StatusError{Proc: nfs3.ProcCreate, Status: nfs3.ErrExist}
	}
	if err != nil {
		return nil, err
	}
	return &remoteSink{d.fsys.OpenNode(ctx, n.FH, m.name, flag), c}, nil
}

func (s *remoteSink) abort() { s.Close() }

func (s *remoteSink) finish(ctx context.Context, m meta) error {
	if err := s.Close(); err != nil {
		return err
	}
	if err := s.c.Setattr(ctx, s.FH(), metaAttr(m)); err != nil {
		return err
	}
	a, err := s.c.Getattr(ctx, s.FH())
	if err != nil {
		return err
	}
	return sameSize(int64(a.Size), m.size)
}

// put sends a file that one WRITE holds as FILE_SYNC, which saves the COMMIT.
func (d remoteDir) put(ctx context.Context, m meta, data []byte) error {
	flag := os.O_WRONLY
	if len(data) <= d.fsys.MaxWrite() {
		flag |= os.O_SYNC
	}
	s, err := d.createFile(ctx, m, flag)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		if _, err := s.WriteAt(data, 0); err != nil {
			s.abort()
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	return s.c.Setattr(ctx, s.FH(), metaAttr(m))
}

func (d remoteDir) symlink(ctx context.Context, target string, m meta) error {
	c, root := d.fsys.Client(), d.fsys.Root()
	attr := nfs3.Sattr{SetMode: true, Mode: 0o777}
	n, err := c.Symlink(ctx, root, m.name, target, attr)
	if errors.Is(err, fs.ErrExist) {
		if n, err = d.relink(ctx, target, m); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return c.Setattr(ctx, n.FH, nfsclient.Times(nfs3.Sattr{}, m.atime, m.mtime))
}

// relink gives the symbolic link that is there the content target. Anything else stays.
func (d remoteDir) relink(ctx context.Context, target string, m meta) (nfsclient.Node, error) {
	c, root := d.fsys.Client(), d.fsys.Root()
	n, err := c.Lookup(ctx, root, m.name)
	if err != nil {
		return n, err
	}
	if n.Attr.Type != nfs3.TypeLnk {
		return n, &nfsclient.StatusError{Proc: nfs3.ProcSymlink, Status: nfs3.ErrExist}
	}
	if old, err := c.Readlink(ctx, n.FH); err == nil && old == target {
		return n, nil
	}
	if err := c.Remove(ctx, root, m.name); err != nil {
		return n, err
	}
	return c.Symlink(ctx, root, m.name, target, nfs3.Sattr{SetMode: true, Mode: 0o777})
}

func (d remoteDir) setMeta(ctx context.Context, m meta) error {
	return d.fsys.Client().Setattr(ctx, d.fsys.Root(), metaAttr(m))
}

func metaAttr(m meta) nfs3.Sattr {
	return nfsclient.Times(nfs3.Sattr{SetMode: true, Mode: nfsclient.WireMode(m.mode)}, m.atime, m.mtime)
}
