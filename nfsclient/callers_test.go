// Calls with several callers' credentials over the same connections.

package nfsclient_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Client from As acts with its own credentials: it owns its files, and has only its own rights.
// The error for a refused call has the attributes in the reply.
func TestEachCallerActsAsHimself(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: exportName, FS: memfs.New(memfs.Options{})}}, Squash: nfsserver.Squash{NoRootSquash: true}, AsyncNames: true,
	})
	must.Succeed(t, err)
	t.Cleanup(func() { srv.Close() })
	rdma, tcp := servePrograms(t, srv.Programs()...)
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		t.Run(tr.String(), func(t *testing.T) {
			root := transport.Cred{Flavor: oncrpc.FlavorSys}
			c := dial(t, tr, rdma, tcp, nfsclient.Options{Cred: &root})
			fsys, err := c.Mount(t.Context(), exportName)
			must.Succeed(t, err)
			must.Succeed(t, c.Setattr(t.Context(), fsys.Root(), nfs3.Sattr{SetMode: true, Mode: 0o777}))
			as := func(uid uint32, groups ...uint32) *nfsclient.Client {
				return c.As(transport.Cred{Flavor: oncrpc.FlavorSys, UID: uid, GID: uid, GIDs: groups})
			}
			owner, other, member := as(1001), as(1002), as(1003, 1001)
			n, err := owner.Create(t.Context(), fsys.Root(), "of 1001 over "+tr.String(), nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o640}, nfs3.Verf{})
			must.Succeed(t, err)
			if n.Attr.UID != 1001 || n.Attr.GID != 1001 {
				t.Errorf("made by %d:%d", n.Attr.UID, n.Attr.GID)
			}
			for who, want := range map[*nfsclient.Client]uint32{owner: nfs3.AccessRead | nfs3.AccessModify, other: 0, member: nfs3.AccessRead} {
				got, err := who.Access(t.Context(), n.FH, nfs3.AccessRead|nfs3.AccessModify)
				if err != nil || got != want {
					t.Errorf("may %#x, want %#x, %v", got, want, err)
				}
			}
			args := nfs3.SetattrArgs{FH: n.FH, Attr: nfs3.Sattr{SetMode: true, Mode: 0o666}}
			var res nfs3.SetattrRes
			err = other.Do(t.Context(), nfs3.ProcSetattr, &args, &res, &res.Status, nil, 0)
			if err == nil {
				t.Error("another user's chmod succeeds, want a refusal")
			}
			if after := res.Wcc.After; !after.Present || after.Attr.UID != 1001 {
				t.Errorf("another user's chmod: attributes %+v, want owner 1001", after)
			}
			var wcc nfs3.WccData
			_, err = owner.WriteWcc(t.Context(), n.FH, []byte("data"), 0, nfs3.Unstable, &wcc)
			must.Succeed(t, err)
			if !wcc.Before.Present {
				t.Error("WRITE: no attributes from before")
			}
			if got, want := [2]uint64{wcc.Before.Attr.Size, wcc.After.Attr.Size}, [2]uint64{0, 4}; got != want {
				t.Errorf("WRITE: sizes before and after %v, want %v", got, want)
			}
		})
	}
}
