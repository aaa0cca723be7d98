// Groups that the server looks up instead of taking them from the call.

package nfsserver_test

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestManageGIDs: a caller has the groups that the server's machine knows, even more than fit into
// a call, and none of the groups it claims.
func TestManageGIDs(t *testing.T) {
	const staff = 7000
	many := make([]uint32, 100)
	for i := range many {
		many[i] = uint32(staff - 99 + i)
	}
	lookup := func(uid uint32) (uint32, []uint32, error) {
		switch uid {
		case 1000:
			return 1, many, nil
		case 1001:
			return 1, nil, nil
		}
		return 0, nil, errors.New("no such user")
	}
	for _, c := range []struct {
		manage bool
		cred   transport.Cred
		want   nfs3.Status
	}{
		{true, transport.Cred{Flavor: 1, UID: 1000, GID: 5}, nfs3.OK},
		{true, transport.Cred{Flavor: 1, UID: 1001, GID: 5, GIDs: []uint32{staff}}, nfs3.ErrAcces},
		{true, transport.Cred{Flavor: 1, UID: 1002, GID: 5, GIDs: []uint32{staff}}, nfs3.ErrAcces},
		// the primary group in the call is accepted
		{true, transport.Cred{Flavor: 1, UID: 1001, GID: staff}, nfs3.OK},
		{false, transport.Cred{Flavor: 1, UID: 1000, GID: 5}, nfs3.ErrAcces},
		{false, transport.Cred{Flavor: 1, UID: 1001, GID: 5, GIDs: []uint32{staff}}, nfs3.OK},
	} {
		squash := believeAll
		squash.ManageGIDs = c.manage
		h := serve(t, nfsserver.Options{Squash: squash, Groups: lookup, Exports: []nfsserver.Export{{Name: "/x", FS: memfs.New(memfs.Options{})}}})
		r := h.dial(root).mount("/x")
		f := r.file(r.root, "f", 0o640)
		r.want("chgrp", r.setattr(f, nfs3.Sattr{SetGID: true, GID: staff}).Status, nfs3.OK)
		u := h.dial(c.cred)
		u.want("READ", first(u.read(f, 0, 1)).Status, c.want)
		if got := u.access(f, nfs3.AccessRead) != 0; got != (c.want == nfs3.OK) {
			t.Errorf("manage %v, %v: ACCESS to read: %v", c.manage, c.cred, got)
		}
	}
}
