// The remote side of a copy: a directory on a server.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// A Remote is an export's Tree.
type Remote struct{ FS *nfsclient.FS }

// A remoteDir is a directory on a server.
type remoteDir struct {
	tree Remote
	at   *nfsclient.FS // the export, with the directory as its root
	c    *nfsclient.Client
	fh   nfs3.FH
	path string // from the root of the export, as walked
	text string
	self Meta
	acls dirACLs // known only for a target
}

func remoteMeta(c *nfsclient.Client, name string, n nfsclient.Node) Meta {
	a := &n.Attr
	return Meta{
		Name: name, Mode: nfsclient.GoMode(a.Type, a.Mode), Size: int64(min(a.Size, 1<<63-1)), Used: a.Used,
		Nlink: a.Nlink, UID: a.UID, GID: a.GID, Major: a.Rdev.Major, Minor: a.Rdev.Minor,
		Atime: a.Atime.Time(), Mtime: a.Mtime.Time(), Ctime: a.Ctime.Time(),
		Fsid: a.Fsid, Fileid: a.Fileid, FH: n.FH, domain: c,
	}
}

// Stat returns the attributes at a path of the export.
func (t Remote) Stat(ctx context.Context, path string, follow bool) (Meta, error) {
	n, err := t.FS.Walk(ctx, path, follow)
	if err != nil {
		return Meta{}, err
	}
	return remoteMeta(t.FS.Client(), lastName(path), n), nil
}

// OpenDir opens a directory and follows symbolic links.
func (t Remote) OpenDir(ctx context.Context, path, text string) (Dir, error) {
	m, err := t.Stat(ctx, path, true)
	if err != nil {
		return nil, err
	}
	if !m.Mode.IsDir() {
		return nil, unix.ENOTDIR
	}
	return t.dir(m, path, text), nil
}

func (t Remote) dir(m Meta, path, text string) *remoteDir {
	return &remoteDir{tree: t, at: t.FS.At(m.FH, path), c: t.FS.Client(), fh: m.FH, path: path, text: text, self: m}
}

// Parent opens the last component's directory.
func (t Remote) Parent(ctx context.Context, path, text string) (Dir, string, error) {
	dir, base, err := splitLast(path)
	if err != nil {
		return nil, "", err
	}
	d, err := t.OpenDir(ctx, dir, textDir(text))
	return d, base, err
}

func (d *remoteDir) Close() error { return nil }

// Commit does nothing. A server has each name and each committed file on disk before it replies
// (RFC 1813 §4.8).
func (d *remoteDir) Commit() error { return nil }

func (d *remoteDir) Self() *Meta { return &d.self }

func (d *remoteDir) Text(name string) string { return join(d.text, name) }

// Above looks up ".." repeatedly; servers stop at the export's root.
func (d *remoteDir) Above(ctx context.Context) []Meta {
	list := []Meta{d.self}
	for len(list) < 4096 {
		last := &list[len(list)-1]
		n, err := d.c.Lookup(ctx, last.FH, "..")
		if err != nil {
			break
		}
		m := remoteMeta(d.c, "..", n)
		if m.key() == last.key() {
			break
		}
		list = append(list, m)
	}
	return list
}

func (d *remoteDir) Entries(ctx context.Context) iter.Seq2[Meta, error] {
	return func(yield func(Meta, error) bool) {
		for e, err := range d.at.Entries(ctx, "") {
			if err != nil {
				yield(Meta{}, err)
				return
			}
			n, err := e.Node()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed since the listing
			}
			m := remoteMeta(d.c, e.Name(), n)
			if !yield(m, err) {
				return
			}
		}
	}
}

func (d *remoteDir) Lstat(ctx context.Context, name string) (Meta, error) {
	n, err := d.c.Lookup(ctx, d.fh, name)
	if err != nil {
		return Meta{}, err
	}
	return remoteMeta(d.c, name, n), nil
}

func (d *remoteDir) Stat(ctx context.Context, name string) (Meta, error) {
	m, err := d.tree.Stat(ctx, join(d.path, name), true)
	m.Name, m.followed = name, true
	return m, err
}

// Follow resolves a chain of links within the export.
func (d *remoteDir) Follow(ctx context.Context, name string) (Dir, string, bool, error) {
	p := join(d.path, name)
	for range maxLinks {
		m, err := d.tree.Stat(ctx, p, false)
		if err != nil {
			return nil, "", false, err
		}
		if m.Mode.Type() != fs.ModeSymlink {
			to, base, err := d.tree.Parent(ctx, p, join(d.text, ""))
			if err != nil {
				return nil, "", false, err
			}
			return to, base, false, nil
		}
		target, err := d.c.Readlink(ctx, m.FH)
		if err != nil {
			return nil, "", false, err
		}
		if strings.HasPrefix(target, "/") {
			p = target
		} else {
			p = p[:strings.LastIndexByte(p, '/')+1] + target
		}
	}
	return nil, "", false, unix.ELOOP
}

func (d *remoteDir) Sub(_ context.Context, m Meta) (Dir, error) {
	if !m.Mode.IsDir() {
		return nil, unix.ENOTDIR
	}
	return d.tree.dir(m, join(d.path, m.Name), d.Text(m.Name)), nil
}

func (d *remoteDir) Readlink(ctx context.Context, m Meta) (string, error) {
	return d.c.Readlink(ctx, m.FH)
}

func (d *remoteDir) Mkdir(ctx context.Context, name string, perm fs.FileMode) (Dir, error) {
	n, err := d.c.Mkdir(ctx, d.fh, name, nfs3.Sattr{SetMode: true, Mode: nfsclient.WireMode(perm)})
	if err != nil {
		return nil, err
	}
	m := remoteMeta(d.c, name, n)
	if !m.Mode.IsDir() {
		return nil, unix.ENOTDIR
	}
	sub := d.tree.dir(m, join(d.path, name), d.Text(name))
	sub.acls.in = d
	return sub, nil
}

func (d *remoteDir) Symlink(ctx context.Context, target, name string) (Meta, error) {
	n, err := d.c.Symlink(ctx, d.fh, name, target, nfs3.Sattr{SetMode: true, Mode: 0o777})
	return remoteMeta(d.c, name, n), err
}

func (d *remoteDir) Mknod(ctx context.Context, name string, perm fs.FileMode, m Meta) (Meta, error) {
	types := map[fs.FileMode]nfs3.FileType{
		fs.ModeNamedPipe: nfs3.TypeFIFO, fs.ModeSocket: nfs3.TypeSock,
		fs.ModeDevice: nfs3.TypeBlk, fs.ModeDevice | fs.ModeCharDevice: nfs3.TypeChr,
	}
	t, ok := types[m.Mode.Type()]
	if !ok {
		return Meta{}, unix.EINVAL
	}
	attr := nfs3.Sattr{SetMode: true, Mode: nfsclient.WireMode(perm)}
	n, err := d.c.Mknod(ctx, d.fh, name, t, attr, nfs3.Specdata{Major: m.Major, Minor: m.Minor})
	return remoteMeta(d.c, name, n), err
}

func (d *remoteDir) LinkTo(ctx context.Context, m Meta, to Dir, newName string) error {
	r, ok := to.(*remoteDir)
	if !ok || r.c != d.c {
		return unix.EXDEV
	}
	return d.c.Link(ctx, m.FH, r.fh, newName)
}

func (d *remoteDir) RenameTo(ctx context.Context, name string, to Dir, newName string) error {
	r, ok := to.(*remoteDir)
	if !ok || r.c != d.c {
		return unix.EXDEV
	}
	return d.c.Rename(ctx, d.fh, name, r.fh, newName)
}

func (d *remoteDir) Remove(ctx context.Context, name string) error {
	return d.c.Remove(ctx, d.fh, name)
}

func (d *remoteDir) Rmdir(ctx context.Context, name string) error { return d.c.Rmdir(ctx, d.fh, name) }

func (d *remoteDir) SetAttr(ctx context.Context, m Meta, a Attr) error {
	link := m.Mode.Type() == fs.ModeSymlink
	if a.SetACLs && !link {
		set := func() error { return d.setNew(ctx, &m, &a.ACLs) }
		if m.Name == "." {
			set = func() error { return d.setSelf(ctx, &a.ACLs) }
		}
		if err := set(); err != nil {
			return err
		}
	}
	return setattr(ctx, d.c, d.handle(&m), a, link)
}

// handle returns the handle of m; m's name may be ".".
func (d *remoteDir) handle(m *Meta) nfs3.FH {
	if m.Name == "." {
		return d.fh
	}
	return m.FH
}

// setattr sends SETATTR if a has more than ACLs.
func setattr(ctx context.Context, c *nfsclient.Client, fh nfs3.FH, a Attr, link bool) error {
	s := wireAttr(a, link)
	if a.SetACLs && s == (nfs3.Sattr{}) {
		return nil
	}
	err := c.Setattr(ctx, fh, s)
	if err == nil && !a.timesFit() {
		err = errTimeRange
	}
	return err
}

// wireAttr converts attributes for SETATTR. It omits a symbolic link's mode, which has no meaning.
func wireAttr(a Attr, link bool) nfs3.Sattr {
	s := nfsclient.Times(nfs3.Sattr{SetMode: a.SetMode && !link, Mode: nfsclient.WireMode(a.Mode)}, a.Atime, a.Mtime)
	if a.SetOwner {
		s.SetUID, s.UID = a.UID != -1, uint32(a.UID)
		s.SetGID, s.GID = a.GID != -1, uint32(a.GID)
	}
	return s
}

// Writable asks the server, because the mode alone does not decide.
func (d *remoteDir) Writable(ctx context.Context, m Meta) error {
	const want = nfs3.AccessModify | nfs3.AccessExtend
	got, err := d.c.Access(ctx, m.FH, want)
	if err == nil && got&want != want {
		err = nfsclient.ErrNoAccess
	}
	return err
}

// CaseInsensitive returns PATHCONF's answer, and true without an answer.
func (d *remoteDir) CaseInsensitive(ctx context.Context) bool {
	res, err := d.c.Pathconf(ctx, d.fh)
	return err != nil || res.CaseInsensitive
}
