// SM_NOTIFY to our own server.

package nfsclient_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// NotifyRestart frees the locks of the named machine, once for each number, over both transports.
func TestNotifyRestartFreesLocks(t *testing.T) {
	machine.NeedRoot(t, "servers believe it of a reserved port, which is root's")
	tree := memfs.New(memfs.Options{})
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: exportName, FS: tree}}, Squash: nfsserver.Squash{NoRootSquash: true}, AsyncNames: true})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	locks, err := nlm.New(srv, nlm.Options{})
	if err != nil {
		t.Fatalf("nlm.New: %v", err)
	}
	t.Cleanup(func() { locks.Close(); srv.Close() })
	rdma, tcp := servePrograms(t, append(srv.Programs(), locks.Programs()...)...)
	_, port, err := net.SplitHostPort(tcp)
	if err != nil {
		t.Fatalf("split host port: %v", err)
	}
	mountPort, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatalf("lookup port: %v", err)
	}
	for i, tr := range []nfsclient.Transport{nfsclient.TCP, nfsclient.RDMA} {
		t.Run(tr.String(), func(t *testing.T) {
			c := dial(t, tr, rdma, tcp, nfsclient.Options{MountPort: mountPort})
			fsys, err := c.Mount(t.Context(), exportName)
			if err != nil {
				t.Fatalf("mount: %v", err)
			}
			if err := fsys.WriteFile(t.Context(), "file", nil, 0o666); err != nil {
				t.Fatalf("write file: %v", err)
			}
			found, err := c.Lookup(t.Context(), fsys.Root(), "file")
			if err != nil {
				t.Fatalf("lookup: %v", err)
			}
			fh := found.FH
			lock := func(svid int32) nlm4.Status {
				t.Helper()
				var res nlm4.Res
				args := nlm4.LockArgs{Exclusive: true, Lock: nlm4.Lock{Caller: []byte("machine"), FH: fh.Bytes(), Owner: []byte("o"), Svid: svid}}
				if err := c.CallLockManager(t.Context(), nlm4.ProcLock, &args, &res); err != nil {
					t.Fatalf("call lock manager: %v", err)
				}
				return res.Status
			}
			tell := func(state int32) {
				t.Helper()
				// for a minute (TIME_WAIT) other tests may have used up the reserved ports
				for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
					err := c.NotifyRestart(t.Context(), []string{"", "127.0.0.1"}[i], "machine", state)
					if err == nil {
						return
					}
					usedUp := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
					if !usedUp || time.Now().After(end) {
						t.Fatalf("notify: %v", err)
					}
				}
			}
			state := int32(5 + 2*i)
			first, other := int32(1+4*i), int32(2+4*i)
			if st := lock(first); st != nlm4.Granted {
				t.Fatalf("LOCK: %v", st)
			}
			if st := lock(other); st != nlm4.Denied {
				t.Fatalf("LOCK of another owner: %v", st)
			}
			tell(state)
			if st := lock(other); st != nlm4.Granted {
				t.Errorf("LOCK after SM_NOTIFY: %v", st)
			}
			tell(state)
			if st := lock(first); st != nlm4.Denied {
				t.Errorf("LOCK after the same SM_NOTIFY again: %v", st)
			}
			tell(state + 100)
		})
	}
}
