// Trees that the caller's address and transport select.

package nfsserver_test

import (
	"io/fs"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A hosts has a tree for each host, and separate ones for RDMA and TCP.
type hosts struct{ *users }

func (hosts) tree(c nfsserver.Caller) uint64 {
	addr := c.Remote.(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr().As4()
	if c.RDMA {
		return 1000 + uint64(addr[3])
	}
	return uint64(addr[3])
}

func (h hosts) Mount(c nfsserver.Caller, path string) (uint64, string, error) {
	return h.tree(c), path, nil
}

func (h hosts) May(c nfsserver.Caller, tree uint64) error {
	if h.tree(c) != tree {
		return fs.ErrPermission
	}
	return nil
}

func (h hosts) Open(c nfsserver.Caller, tree uint64) (nfsserver.FS, error) {
	c.UID = uint32(tree) // users.Open expects the tree's number as the user
	return h.users.Open(c, tree)
}

// TestTreeOfEachConnection: the address and transport select the tree, with any user.
func TestTreeOfEachConnection(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: []nfsserver.Export{{Name: "/home", Trees: hosts{newUsers(t)}}}})
	roots := map[string]nfs3.FH{}
	all := map[string]*client{}
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		for name, c := range h.dialFrom(host, as(5)) {
			c.mount("/home").file(c.root, host+name, 0o666)
			roots[host+name], all[host+name] = c.root, c
		}
	}
	for own, c := range all {
		for other, root := range roots {
			want := nfs3.ErrAcces
			if other == own {
				want = nfs3.OK
			}
			c.want(own+" looks up in the tree of "+other, c.lookup(root, other).Status, want)
		}
	}
}
