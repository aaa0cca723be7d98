// ACLs: both procedures over both transports, lists with any number of entries, servers without
// ACLs, and hostile servers.

package nfsclient_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
)

// An aclStub serves NFSACL for one object. It can reply with lists that no real server sends.
type aclStub struct {
	calls atomic.Int32

	mu     sync.Mutex // guards the fields below
	acls   nfsacl3.ACLs
	status nfs3.Status
	mask   uint32 // mask of the last SETACL
}

// answer makes the stub reply with the given list and status.
func (s *aclStub) answer(access []nfsacl3.Entry, status nfs3.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acls.Access, s.status = access, status
}

func (s *aclStub) lastMask() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mask
}

func (s *aclStub) program() *transport.Program {
	null := transport.Procedure{Name: "NULL", Run: func(*transport.Call) error { s.calls.Add(1); return nil }}
	get := transport.Procedure{Name: "GETACL", Idempotent: true, Run: func(c *transport.Call) error {
		s.calls.Add(1)
		var args nfsacl3.GetACLArgs
		args.DecodeXDR(c.Args)
		s.mu.Lock()
		defer s.mu.Unlock()
		res := nfsacl3.GetACLRes{Status: s.status, ACLs: s.acls}
		res.EncodeXDR(c.Res)
		return c.ArgsErr()
	}}
	set := transport.Procedure{Name: "SETACL", Run: func(c *transport.Call) error {
		s.calls.Add(1)
		var args nfsacl3.SetACLArgs
		args.DecodeXDR(c.Args)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mask, s.acls.Access, s.acls.Default = args.ACLs.Mask, args.ACLs.Access, args.ACLs.Default
		(&nfsacl3.SetACLRes{Status: s.status}).EncodeXDR(c.Res)
		return c.ArgsErr()
	}}
	return &transport.Program{Name: "nfsacl", Number: nfsacl3.Program, Version: nfsacl3.Version, Procs: []transport.Procedure{null, get, set}}
}

// withACLs mounts a server over each transport. stub serves NFSACL there; with nil the server has
// no NFSACL.
func withACLs(t *testing.T, stub *aclStub, f func(t *testing.T, fsys *nfsclient.FS)) {
	t.Helper()
	list := slices.DeleteFunc(programs(t, nil), func(p *transport.Program) bool { return p.Number == nfsacl3.Program })
	if stub != nil {
		stub.acls.Mask = nfsacl3.MaskAll
		list = append(list, stub.program())
	}
	rdma, tcp := servePrograms(t, list...)
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		t.Run(tr.String(), func(t *testing.T) {
			fsys, err := dial(t, tr, rdma, tcp, nfsclient.Options{}).Mount(t.Context(), exportName)
			must.Succeed(t, err)
			f(t, fsys)
		})
	}
}

// aclOf returns a list with n entries.
func aclOf(n int) posixacl.ACL {
	acl := posixacl.ACL{{Tag: posixacl.UserObj, Perm: 7, ID: posixacl.NoID}}
	for i := range n - 4 {
		acl = append(acl, posixacl.Entry{Tag: posixacl.User, Perm: uint16(i % 8), ID: uint32(1000 + i)})
	}
	return append(acl, posixacl.Entry{Tag: posixacl.GroupObj, Perm: 5, ID: posixacl.NoID},
		posixacl.Entry{Tag: posixacl.Mask, Perm: 3, ID: posixacl.NoID}, posixacl.Entry{Tag: posixacl.Other, Perm: 1, ID: posixacl.NoID})
}

// Lists of all lengths survive both directions. A long list costs a second call over RDMA, because
// the room for the reply is fixed before its size is known.
func TestACLsOfAnyLength(t *testing.T) {
	conformance.Proves(t, "R8267-007", "R8267-022")
	stub := new(aclStub)
	withACLs(t, stub, func(t *testing.T, fsys *nfsclient.FS) {
		for _, n := range []int{5, 32, 300, posixacl.MaxEntries} {
			want := nfsclient.ACLs{Access: aclOf(n), Default: aclOf(n)}
			must.Succeed(t, fsys.SetACLs(t.Context(), "/", want))
			before := stub.calls.Load()
			got, err := fsys.ACLs(t.Context(), "/")
			if err != nil {
				t.Fatalf("%d entries: %v", n, err)
			}
			if !slices.Equal(got.Access, want.Access) {
				t.Fatalf("%d entries: access ACL has %d others", n, len(got.Access))
			}
			if !slices.Equal(got.Default, want.Default) {
				t.Fatalf("%d entries: default ACL has %d others", n, len(got.Default))
			}
			most := int32(2)
			if n <= 32 {
				most = 1
			}
			if calls := stub.calls.Load() - before; calls < 1 || calls > most {
				t.Errorf("%d entries: %d calls, want 1 to %d", n, calls, most)
			}
		}
		if mask := stub.lastMask(); mask != nfsacl3.MaskAccess|nfsacl3.MaskDefault {
			t.Errorf("of a directory %#x was set", mask)
		}
		if s := fsys.Client().Calls()["SETACL"]; s.Count != 4 || s.Errors != 0 {
			t.Errorf("counted: %+v", s)
		}
	})
}

// A mode travels as a list of three entries, and is read as the ACL equivalent to this mode.
func TestACLOfAMode(t *testing.T) {
	stub := new(aclStub)
	withACLs(t, stub, func(t *testing.T, fsys *nfsclient.FS) {
		must.Succeed(t, fsys.WriteFile(t.Context(), "file", nil, 0o640))
		must.Succeed(t, fsys.SetACLs(t.Context(), "file", nfsclient.ACLs{Access: posixacl.FromMode(0o751)}))
		if mask := stub.lastMask(); mask != nfsacl3.MaskAccess {
			t.Errorf("of a file %#x was set", mask)
		}
		got, err := fsys.ACLs(t.Context(), "file")
		if err != nil {
			t.Errorf("ACLs of a file: %v", err)
		}
		if !got.Access.IsMode() || got.Access.Mode() != 0o751 {
			t.Errorf("access ACL %+v, want mode 0751", got.Access)
		}
		if got.Default != nil {
			t.Errorf("default ACL %+v, want none", got.Default)
		}
		for name, acls := range map[string]nfsclient.ACLs{
			"none": {}, "no order": {Access: posixacl.ACL{got.Access[1], got.Access[0], got.Access[2]}},
			"too many": {Access: aclOf(posixacl.MaxEntries + 1)},
		} {
			before := stub.calls.Load()
			if err := fsys.SetACLs(t.Context(), "file", acls); !errors.Is(err, syscall.EINVAL) || stub.calls.Load() != before {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := fsys.SetACLs(t.Context(), "file", nfsclient.ACLs{Access: got.Access, Default: got.Access}); !errors.Is(err, syscall.EACCES) {
			t.Errorf("the default ACL of a file: %v", err)
		}
	})
}

// A server without NFSACL is asked once, for all callers.
func TestServerWithoutACLs(t *testing.T) {
	withACLs(t, nil, func(t *testing.T, fsys *nfsclient.FS) {
		c := fsys.Client()
		other := c.As(transport.Cred{UID: 1, GID: 1})
		for range 3 {
			if _, _, err := c.GetACL(t.Context(), fsys.Root()); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("GETACL: got %v, want %v", err, errors.ErrUnsupported)
			}
			if _, err := other.SetACL(t.Context(), fsys.Root(), nfsclient.ACLs{Access: posixacl.FromMode(0o777)}, true); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("SETACL: got %v, want %v", err, errors.ErrUnsupported)
			}
		}
		if n := c.Calls(); n["GETACL"].Count != 1 || n["SETACL"].Count != 0 {
			t.Errorf("%d GETACL and %d SETACL", n["GETACL"].Count, n["SETACL"].Count)
		}
		if has, err := other.HasACLs(t.Context()); has || err != nil {
			t.Error(has, err)
		}
	})
}

func TestServerHasACLs(t *testing.T) {
	withACLs(t, new(aclStub), func(t *testing.T, fsys *nfsclient.FS) {
		if has, err := fsys.Client().HasACLs(t.Context()); !has || err != nil {
			t.Error(has, err)
		}
	})
}

// An invalid list is an error, and a refused call returns the server's status.
func TestACLsThatAreNone(t *testing.T) {
	stub := new(aclStub)
	withACLs(t, stub, func(t *testing.T, fsys *nfsclient.FS) {
		stub.answer([]nfsacl3.Entry{{Tag: nfsacl3.TagUser, ID: 5, Perm: 6}}, nfs3.OK)
		if got, err := fsys.ACLs(t.Context(), "/"); err == nil {
			t.Errorf("%+v", got)
		}
		stub.answer(nil, nfs3.ErrAcces)
		var refused *nfsclient.StatusError
		_, err := fsys.ACLs(t.Context(), "/")
		if !errors.As(err, &refused) {
			t.Fatalf("a refusal: got %v, want a StatusError", err)
		}
		if want := "getacl /: permission denied (GETACL: NFS3ERR_ACCES)"; err.Error() != want {
			t.Errorf("a refusal: got %q, want %q", err, want)
		}
	})
}
