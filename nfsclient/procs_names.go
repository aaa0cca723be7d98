// Procedures on names and attributes, as methods on handles.

package nfsclient

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Node is an object: its handle, and its attributes if known.
type Node struct {
	FH   nfs3.FH
	Attr nfs3.Fattr
}

// A lookupOp has the arguments and result of one LOOKUP. It is pooled in lookupOps together with
// the space for its name.
type lookupOp struct {
	args nfs3.LookupArgs
	res  nfs3.LookupRes
}

var lookupOps = sync.Pool{New: func() any { return new(lookupOp) }}

// Lookup finds name in a directory.
func (c *Client) Lookup(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	op := lookupOps.Get().(*lookupOp)
	defer lookupOps.Put(op)
	op.args.Dir, op.args.Name = dir, append(op.args.Name[:0], name...)
	if err := c.call(ctx, nfs3.ProcLookup, &op.args, &op.res, &op.res.Status, nil, 0); err != nil {
		return Node{}, err
	}
	return c.complete(ctx, op.res.FH, &op.res.Attr)
}

// complete asks for attributes if the server left them out.
func (c *Client) complete(ctx context.Context, fh nfs3.FH, attr *nfs3.PostOpAttr) (Node, error) {
	if attr.Present {
		return Node{FH: fh, Attr: attr.Attr}, nil
	}
	a, err := c.Getattr(ctx, fh)
	return Node{FH: fh, Attr: a}, err
}

// Setattr sets attributes.
func (c *Client) Setattr(ctx context.Context, fh nfs3.FH, attr nfs3.Sattr) error {
	args := nfs3.SetattrArgs{FH: fh, Attr: attr}
	var res nfs3.SetattrRes
	return c.call(ctx, nfs3.ProcSetattr, &args, &res, &res.Status, nil, 0)
}

// Access returns the subset of bits (nfs3.Access…) that the server allows.
func (c *Client) Access(ctx context.Context, fh nfs3.FH, bits uint32) (uint32, error) {
	args := nfs3.AccessArgs{FH: fh, Access: bits}
	var res nfs3.AccessRes
	err := c.call(ctx, nfs3.ProcAccess, &args, &res, &res.Status, nil, 0)
	return res.Access & bits, err
}

// linkRes is a READLINK result with a copy of the path, which outlives the message.
type linkRes struct {
	nfs3.ReadlinkRes
	path string
}

// DecodeXDR copies the path, because the message is released afterwards.
func (r *linkRes) DecodeXDR(d *xdr.Decoder) {
	r.ReadlinkRes.DecodeXDR(d)
	r.path = string(r.Path)
	r.Path = nil
}

// Readlink returns the content of a symbolic link.
func (c *Client) Readlink(ctx context.Context, fh nfs3.FH) (string, error) {
	args := nfs3.ReadlinkArgs{FH: fh}
	var res linkRes
	extra := nfs3.Bindings[nfs3.ProcReadlink].Extra(nfs3.MaxPath)
	err := c.call(ctx, nfs3.ProcReadlink, &args, &res, &res.Status, nil, extra)
	return res.path, err
}

// made completes the result of a creating procedure: servers may omit handle and attributes.
func (c *Client) made(ctx context.Context, dir nfs3.FH, name string, res *nfs3.CreateRes) (Node, error) {
	if !res.FH.Present {
		return c.Lookup(ctx, dir, name)
	}
	return c.complete(ctx, res.FH.FH, &res.Attr)
}

// Create makes a regular file. verf matters only with nfs3.Exclusive, attr with the other modes.
func (c *Client) Create(ctx context.Context, dir nfs3.FH, name string, mode nfs3.CreateMode,
	attr nfs3.Sattr, verf nfs3.Verf) (Node, error) {
	args := nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, Mode: mode, Attr: attr, Verf: verf}
	var res nfs3.CreateRes
	if err := c.call(ctx, nfs3.ProcCreate, &args, &res, &res.Status, nil, 0); err != nil {
		return Node{}, err
	}
	return c.made(ctx, dir, name, &res)
}

// Mkdir makes a directory.
func (c *Client) Mkdir(ctx context.Context, dir nfs3.FH, name string, attr nfs3.Sattr) (Node, error) {
	args := nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, Attr: attr}
	var res nfs3.MkdirRes
	if err := c.call(ctx, nfs3.ProcMkdir, &args, &res, &res.Status, nil, 0); err != nil {
		return Node{}, err
	}
	return c.made(ctx, dir, name, &res)
}

// Symlink makes a symbolic link with the content target.
func (c *Client) Symlink(ctx context.Context, dir nfs3.FH, name, target string, attr nfs3.Sattr) (Node, error) {
	args := nfs3.SymlinkArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, Attr: attr, Path: []byte(target)}
	var res nfs3.SymlinkRes
	if err := c.call(ctx, nfs3.ProcSymlink, &args, &res, &res.Status, nil, 0); err != nil {
		return Node{}, err
	}
	return c.made(ctx, dir, name, &res)
}

// Mknod makes a device, socket or FIFO; rdev matters only for devices.
func (c *Client) Mknod(ctx context.Context, dir nfs3.FH, name string, t nfs3.FileType,
	attr nfs3.Sattr, rdev nfs3.Specdata) (Node, error) {
	args := nfs3.MknodArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, Type: t, Attr: attr, Rdev: rdev}
	var res nfs3.MknodRes
	if err := c.call(ctx, nfs3.ProcMknod, &args, &res, &res.Status, nil, 0); err != nil {
		return Node{}, err
	}
	return c.made(ctx, dir, name, &res)
}

// Remove removes a name of a non-directory.
func (c *Client) Remove(ctx context.Context, dir nfs3.FH, name string) error {
	args := nfs3.RemoveArgs{Dir: dir, Name: []byte(name)}
	var res nfs3.RemoveRes
	return c.call(ctx, nfs3.ProcRemove, &args, &res, &res.Status, nil, 0)
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, dir nfs3.FH, name string) error {
	args := nfs3.RmdirArgs{Dir: dir, Name: []byte(name)}
	var res nfs3.RmdirRes
	return c.call(ctx, nfs3.ProcRmdir, &args, &res, &res.Status, nil, 0)
}

// Rename gives an object another name in the same file system.
func (c *Client) Rename(ctx context.Context, fromDir nfs3.FH, from string, toDir nfs3.FH, to string) error {
	args := nfs3.RenameArgs{
		From: nfs3.DirOpArgs{Dir: fromDir, Name: []byte(from)},
		To:   nfs3.DirOpArgs{Dir: toDir, Name: []byte(to)},
	}
	var res nfs3.RenameRes
	return c.call(ctx, nfs3.ProcRename, &args, &res, &res.Status, nil, 0)
}

// Link gives an object an additional name.
func (c *Client) Link(ctx context.Context, fh, dir nfs3.FH, name string) error {
	args := nfs3.LinkArgs{FH: fh, Link: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}}
	var res nfs3.LinkRes
	return c.call(ctx, nfs3.ProcLink, &args, &res, &res.Status, nil, 0)
}

// Fsstat returns the space of the file system with fh.
func (c *Client) Fsstat(ctx context.Context, fh nfs3.FH) (nfs3.FsstatRes, error) {
	args := nfs3.FsstatArgs{FH: fh}
	var res nfs3.FsstatRes
	err := c.call(ctx, nfs3.ProcFsstat, &args, &res, &res.Status, nil, 0)
	return res, err
}

// Fsinfo returns the server's transfer sizes and file size limit.
func (c *Client) Fsinfo(ctx context.Context, fh nfs3.FH) (nfs3.FsinfoRes, error) {
	args := nfs3.FsinfoArgs{FH: fh}
	var res nfs3.FsinfoRes
	err := c.call(ctx, nfs3.ProcFsinfo, &args, &res, &res.Status, nil, 0)
	return res, err
}

// Pathconf returns the name limits of the file system with fh.
func (c *Client) Pathconf(ctx context.Context, fh nfs3.FH) (nfs3.PathconfRes, error) {
	args := nfs3.PathconfArgs{FH: fh}
	var res nfs3.PathconfRes
	err := c.call(ctx, nfs3.ProcPathconf, &args, &res, &res.Status, nil, 0)
	return res, err
}
