// Target: the main type of programs for go-nfs-client, over any transport.

// Package vmware lets programs for github.com/vmware/go-nfs-client run over RPC-over-RDMA, or over
// our TCP. The types Target and File of go-nfs-client hold a concrete TCP client. So this package
// has types with the same names, methods and results (go-nfs-client's FSInfo, EntryPlus and
// errors). A program changes only its import and how it mounts.
//
//	m, err := vmware.DialMount(ctx, "nfsrdma://host", nfsclient.Options{})
//	v, err := m.Mount("/export")
//	f, err := v.OpenFile("dir/file", 0o644)
package vmware

import (
	"context"
	"os"
	"path"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/vmware/go-nfs-client/nfs"
)

// A Mount is a connection to a server.
type Mount struct {
	c    *nfsclient.Client
	ctx  context.Context
	path string
}

// DialMount connects to a server: HOST[:PORT] or a URL. A URL's scheme overrides opt.Transport. ctx
// bounds all use of the Mount.
func DialMount(ctx context.Context, server string, opt nfsclient.Options) (*Mount, error) {
	t, err := nfsclient.ParseServer(server)
	if err != nil {
		return nil, err
	}
	if t.TransportSet {
		opt.Transport = t.Transport
	}
	t.Transport = opt.Transport
	c, err := nfsclient.Dial(ctx, t.Addr(), opt)
	if err != nil {
		return nil, err
	}
	return &Mount{c: c, ctx: ctx}, nil
}

// Mount mounts an export.
func (m *Mount) Mount(dirpath string) (*Target, error) {
	fsys, err := m.c.Mount(m.ctx, dirpath)
	if err != nil {
		return nil, err
	}
	m.path = dirpath
	return NewTarget(m.ctx, fsys), nil
}

// Unmount notifies the server.
func (m *Mount) Unmount() error { return m.c.Unmount(m.ctx, m.path) }

// Close closes the connection.
func (m *Mount) Close() error { return m.c.Close() }

// A Target is a mounted export.
type Target struct {
	fsys *nfsclient.FS
	ctx  context.Context
}

// NewTarget makes a Target from an FS. ctx bounds all use of the Target.
func NewTarget(ctx context.Context, fsys *nfsclient.FS) *Target { return &Target{fsys: fsys, ctx: ctx} }

// Close does nothing, because the connection belongs to the Mount.
func (v *Target) Close() error { return nil }

// FSInfo returns the server's FSINFO result.
func (v *Target) FSInfo() (*nfs.FSInfo, error) {
	r, err := v.fsys.Client().Fsinfo(v.ctx, v.fsys.Root())
	if err != nil {
		return nil, wire(err)
	}
	return &nfs.FSInfo{
		Attr:  nfs.PostOpAttr{IsSet: r.Attr.Present, Attr: *fattr(&r.Attr.Attr)},
		RTMax: r.Rtmax, RTPref: r.Rtpref, RTMult: r.Rtmult,
		WTMax: r.Wtmax, WTPref: r.Wtpref, WTMult: r.Wtmult, DTPref: r.Dtpref,
		Size: r.Maxfilesize, TimeDelta: nfsTime(r.TimeDelta), Properties: r.Properties,
	}, nil
}

// walk resolves p from the root by component; it does not follow links.
func (v *Target) walk(p string) (nfsclient.Node, error) {
	n := nfsclient.Node{FH: v.fsys.Root()}
	for _, name := range strings.Split(path.Clean(p), "/") {
		if name == "." || name == "" {
			continue
		}
		var err error
		if n, err = v.fsys.Client().Lookup(v.ctx, n.FH, name); err != nil {
			return n, wire(err)
		}
	}
	return n, nil
}

// parent returns the directory of p, and the name in it.
func (v *Target) parent(p string) (nfs3.FH, string, error) {
	dir, name := path.Split(p)
	n, err := v.walk(dir)
	return n.FH, name, err
}

// Lookup returns the attributes and handle at a path. For the root, the attributes are empty.
func (v *Target) Lookup(p string) (os.FileInfo, []byte, error) {
	n, err := v.walk(p)
	if err != nil {
		return nil, nil, err
	}
	return fattr(&n.Attr), n.FH.Bytes(), nil
}

// ReadDirPlus lists a directory with attributes and handles, without "." and "..".
func (v *Target) ReadDirPlus(dir string) ([]*nfs.EntryPlus, error) {
	n, err := v.walk(dir)
	if err != nil {
		return nil, err
	}
	var list []*nfs.EntryPlus
	for e, err := range v.fsys.At(n.FH, dir).Entries(v.ctx, "/") {
		if err != nil {
			return nil, wire(err)
		}
		node, err := e.Node()
		if err != nil {
			return nil, wire(err)
		}
		list = append(list, &nfs.EntryPlus{
			FileId: e.Fileid(), FileName: e.Name(),
			Attr:   nfs.PostOpAttr{IsSet: true, Attr: *fattr(&node.Attr)},
			Handle: nfs.PostOpFH3{IsSet: true, FH: node.FH.Bytes()},
		})
	}
	return list, nil
}

// Mkdir makes a directory and returns its handle.
func (v *Target) Mkdir(p string, perm os.FileMode) ([]byte, error) {
	dir, name, err := v.parent(p)
	if err != nil {
		return nil, err
	}
	n, err := v.fsys.Client().Mkdir(v.ctx, dir, name, nfs3.Sattr{SetMode: true, Mode: uint32(perm.Perm())})
	return n.FH.Bytes(), wire(err)
}

// Create makes a file and returns its handle.
func (v *Target) Create(p string, perm os.FileMode) ([]byte, error) {
	n, err := v.create(p, perm)
	return n.FH.Bytes(), err
}

func (v *Target) create(p string, perm os.FileMode) (nfsclient.Node, error) {
	dir, name, err := v.parent(p)
	if err != nil {
		return nfsclient.Node{}, err
	}
	attr := nfs3.Sattr{SetMode: true, Mode: uint32(perm.Perm())}
	n, err := v.fsys.Client().Create(v.ctx, dir, name, nfs3.Unchecked, attr, nfs3.Verf{})
	return n, wire(err)
}

// Remove removes a name of a non-directory.
func (v *Target) Remove(p string) error {
	dir, name, err := v.parent(p)
	if err != nil {
		return err
	}
	return wire(v.fsys.Client().Remove(v.ctx, dir, name))
}

// RmDir removes an empty directory.
func (v *Target) RmDir(p string) error {
	dir, name, err := v.parent(p)
	if err != nil {
		return err
	}
	return wire(v.fsys.Client().Rmdir(v.ctx, dir, name))
}

// RemoveAll removes a directory and everything below it. A non-directory is an error, a missing
// name is not.
func (v *Target) RemoveAll(p string) error {
	err := v.RmDir(p)
	if err == nil || os.IsNotExist(err) {
		return nil
	}
	if nfs.IsNotDirError(err) {
		return err
	}
	dir, name, err := v.parent(p)
	if err != nil {
		return err
	}
	return wire(v.fsys.At(dir, "").RemoveAll(v.ctx, name))
}
