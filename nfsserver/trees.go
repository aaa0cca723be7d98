// File trees chosen for each caller: the interface Trees, and the way from a call to its tree.

package nfsserver

import (
	"crypto/tls"
	"errors"
	"net"
	"path"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Trees choose the file tree that each caller of an Export sees: one for each user, connection or
// path, for example. A tree has a number, which the handles of its files contain. A handle alone
// gives no access, because May decides about each caller. It stays valid after a restart, if
// Options.Key stays and Open opens the same tree for the number.
//
// All methods may be called concurrently.
type Trees interface {
	// Mount chooses the tree for a MNT. path is clean and below the export's name; "" is the name
	// itself. rest, an end of path, is the directory inside the tree. An error refuses the mount:
	// fs.ErrNotExist, fs.ErrPermission, or another of an FS. Mount may block.
	//
	// Linux's client mounts as user 0, and with AUTH_SYS even if RPCSEC_GSS follows. Later calls
	// have their users.
	Mount(c Caller, path string) (tree uint64, rest string, err error)
	// May returns nil if the caller may use the tree. ErrStale: the tree is gone. Another error is
	// NFS3ERR_ACCES. The Server calls May in each call with a handle of the tree, so a new answer
	// counts at once. May does not block.
	//
	// A client that begins to mount with RPCSEC_GSS may read the root's attributes with AUTH_SYS
	// (RFC 2623 §2.3.2), without May.
	May(c Caller, tree uint64) error
	// Open opens a tree for a caller that Mount or May has just admitted. The Server owns the FS,
	// and calls Open for the same number again only after it has closed the FS. Uncommitted data
	// can be lost then: clients send it again. An export that Replace has removed closes its trees
	// later, so a new export with the same Trees can open one before. Refs have at most MaxTreeRef
	// bytes, and Info.HandleKey has no effect. ErrStale and fs.ErrNotExist: the tree is gone. After
	// another error clients retry (NFS3ERR_JUKEBOX), and MNT fails. Open may block.
	Open(c Caller, tree uint64) (FS, error)
}

// A Caller describes a call's origin.
type Caller struct {
	Remote net.Addr
	RDMA   bool
	TLS    *tls.ConnectionState // nil: in clear; read only

	// UID is the user before squashing: claimed by AUTH_SYS and accepted by Options.Squash, or
	// found for the Principal. It is Nobody without a user, as with AUTH_NONE.
	UID       uint32
	Flavor    oncrpc.Flavor // for RPCSEC_GSS, the pseudo-flavor
	Principal string        // RPCSEC_GSS's; otherwise ""
}

// callerOf returns an authorized call's caller.
func callerOf(c *transport.Call) Caller {
	by := Caller{Remote: c.Remote, RDMA: c.RDMA, TLS: c.Channel.TLS, UID: Nobody, Flavor: c.Cred.Flavor, Principal: c.Cred.Principal}
	if namesUser(&c.Cred) {
		by.UID = c.Cred.UID
	}
	return by
}

// treeWait bounds a call's wait for its tree to be opened, and for a tree to be closed first.
const treeWait = 5 * time.Second

// find returns the tree for a call's handle, in use until leave. rootOnly: the caller may read the
// root's attributes whatever May says, but not open the tree.
func (t *treeTable) find(c *transport.Call, tree uint64, rootOnly bool) (*export, error) {
	if rootOnly {
		if x := t.enter(tree); x != nil {
			return x, nil
		}
		return nil, nfs3.ErrAcces
	}
	by := callerOf(c)
	if err := t.chosen.May(by, tree); err != nil {
		if isGone(err) {
			return nil, nfs3.ErrStale
		}
		return nil, nfs3.ErrAcces
	}
	x, err := t.use(c, by, tree)
	switch {
	case err == nil, errors.Is(err, transport.ErrShed):
		return x, err
	case isGone(err):
		return nil, nfs3.ErrStale
	}
	return nil, ErrBusy // an error would lose data that the client holds
}

// isGone reports whether an error from Trees means that a tree does not exist.
func isGone(err error) bool {
	st := status(err)
	return st == nfs3.ErrStale || st == nfs3.ErrNoEnt
}

// mount returns the tree for MNT with a path below the export, in use until leave, and the path
// inside the tree.
func (t *treeTable) mount(c *transport.Call, p string) (x *export, rest string, err error) {
	by := callerOf(c)
	tree, rest, err := t.chosen.Mount(by, p)
	if err != nil {
		return nil, "", err
	}
	if rest != "" && rest != p && !strings.HasSuffix(p, "/"+rest) || rest != strings.TrimPrefix(path.Clean("/"+rest), "/") {
		return nil, "", nfs3.ErrServerFault
	}
	x, err = t.use(c, by, tree)
	return x, rest, err
}

// use returns a tree in use until leave, for an admitted caller. It opens the tree if necessary.
func (t *treeTable) use(c *transport.Call, by Caller, tree uint64) (*export, error) {
	if x := t.enter(tree); x != nil {
		return x, nil
	}
	if err := c.Busy(); err != nil {
		return nil, err
	}
	late := time.NewTimer(treeWait)
	defer late.Stop()
	for {
		x, n, over, err := t.begin(by, tree)
		if x != nil || err != nil {
			return x, err
		}
		select {
		case <-over:
			if over == n.opened && n.err != nil {
				return nil, n.err
			}
		case <-late.C:
			return nil, ErrBusy
		}
	}
}
