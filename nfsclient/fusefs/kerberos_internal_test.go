// The callers that a mount with Kerberos distinguishes.

package fusefs

import (
	"errors"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// kerberosMount returns a mount with Kerberos and without a server, and how often each uid's ticket
// was requested.
func kerberosMount() (f *fileSystem, asked map[uint32]int) {
	asked = make(map[uint32]int)
	f = &fileSystem{client: new(nfsclient.Client).AsAuth(oncrpc.FlavorKrb5i, nil, transport.Cred{})}
	f.opt.Kerberos = func(uid uint32) *transport.Auth {
		asked[uid]++
		return transport.NewAuth(transport.Cred{})
	}
	f.callers.init(f)
	return f, asked
}

// With Kerberos a caller is a local user, whatever the process and its groups are.
func TestKerberosCallers(t *testing.T) {
	f, asked := kerberosMount()
	of := func(uid, gid, pid uint32) *caller {
		return f.callers.of(&fuse.Caller{Owner: fuse.Owner{Uid: uid, Gid: gid}, Pid: pid})
	}
	alice, bob, root := of(1001, 1001, 7), of(1002, 1002, 8), of(0, 0, 0)
	if of(1001, 5, 9) != alice || of(1002, 1002, 8) != bob || of(0, 7, 1) != root {
		t.Error("a user has several callers, want one")
	}
	if alice == bob || alice == root || bob == root {
		t.Error("users share a caller, want one each")
	}
	for uid, n := range asked {
		if n != 1 {
			t.Errorf("credentials of %d: asked for %d times, want once", uid, n)
		}
	}
	for _, who := range []*caller{alice, bob, root} {
		if who.client.Flavor() != oncrpc.FlavorKrb5i {
			t.Errorf("flavor: got %v, want krb5i", who.client.Flavor())
		}
		if who.uid != unknownUID {
			t.Errorf("uid: got %d, want an unknown one: the server decides", who.uid)
		}
	}
}

// The number of remembered callers is bounded.
func TestKerberosCallersAreBounded(t *testing.T) {
	f, asked := kerberosMount()
	for uid := range uint32(3 * maxCallers) {
		f.callers.of(&fuse.Caller{Owner: fuse.Owner{Uid: uid}})
		if n := len(f.callers.users); n > maxCallers {
			t.Fatalf("after %d users: %d callers, want at most %d", uid+1, n, maxCallers)
		}
	}
	if len(asked) != 3*maxCallers || len(f.callers.procs) != 0 {
		t.Errorf("got credentials of %d users and %d processes, want %d and 0", len(asked), len(f.callers.procs), 3*maxCallers)
	}
}

// A mount with Kerberos never acts for one user with another user's ticket.
func TestKerberosNeedsTicketsOfEachUser(t *testing.T) {
	sys, krb5 := new(nfsclient.Client).As(transport.Cred{Flavor: oncrpc.FlavorSys}), new(nfsclient.Client).AsAuth(oncrpc.FlavorKrb5, nil, transport.Cred{})
	each := func(uint32) *transport.Auth { return nil }
	for _, tt := range []struct {
		what string
		c    *nfsclient.Client
		opt  Options
		want error
	}{
		{"AUTH_SYS", sys, Options{}, nil},
		{"AUTH_SYS of one user", sys, Options{Cred: &transport.Cred{}}, nil},
		{"AUTH_SYS, with Kerberos possible", sys, Options{Kerberos: each}, nil},
		{"Kerberos", krb5, Options{Kerberos: each}, nil},
		{"Kerberos of the mount", krb5, Options{}, errOneTicket},
		{"Kerberos and one user", krb5, Options{Kerberos: each, Cred: &transport.Cred{}}, errOneTicket},
	} {
		if got := tt.opt.checkSecurity(tt.c); !errors.Is(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.what, got, tt.want)
		}
	}
}
