// The check that writes: what it tells of the server, and that it leaves nothing behind.

package doctor

import (
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var nfsPage nfsclient.DirPage // the first

func me() uint32 { return uint32(os.Geteuid()) }

// Servers that let us write, but not as who we are, or with another clock.
func TestSquashAndClock(t *testing.T) {
	programs, _ := tree(t, me()+4242, false)
	rdma, tcp := serve(t, programs...)
	part := "belong to"
	if me() == 0 { // root is told of both ways to be root there: that of other servers, and of ours
		part = "no_root_squash in exports(5), or nfsrdmad --no-root-squash"
	}
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, true, map[string]wanted{writeCheck: {Warn, part}})
	programs, _ = tree(t, me(), false)
	rdma, tcp = serve(t, programs...)
	for skew, want := range map[time.Duration]wanted{
		time.Hour: {Warn, "1h0m0s behind"}, -time.Hour: {Warn, "1h0m0s ahead"}, 3 * time.Second: {OK, "3s behind"},
	} {
		now := func() time.Time { return time.Now().Add(skew) }
		examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true, Now: now}, true, map[string]wanted{writeCheck: want})
	}
	if names := left(t, tcp); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// Servers that do not let us write, or do it wrong. What could be removed is gone,
// and what could not is named.
func TestWritesThatFail(t *testing.T) {
	programs, _ := tree(t, me(), true)
	rdma, tcp := serve(t, programs...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "the export is read-only"}})

	programs, _ = tree(t, me(), false)
	_, tcp = serve(t, programs...)
	wrong := withProc(programs, nfs3.Program, nfs3.ProcGetattr, func(old func(*transport.Call) error, c *transport.Call) error { return old(c) })
	wrong = withProc(wrong, nfs3.Program, nfs3.ProcCommit, func(func(*transport.Call) error, *transport.Call) error { return transport.ErrSystem })
	rdma, _ = serve(t, wrong...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "COMMIT"}})

	reads := 0
	stale := withProc(programs, nfs3.Program, nfs3.ProcWrite, func(old func(*transport.Call) error, c *transport.Call) error {
		if reads++; reads == 2 { // says that it is written, and it is not
			var a nfs3.WriteArgs
			a.DecodeXDR(c.Args)
			(&nfs3.WriteRes{Count: a.Count}).EncodeXDR(c.Res)
			return c.ArgsErr()
		}
		return old(c)
	})
	rdma, _ = serve(t, stale...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "not what was written"}})
	if names := left(t, tcp); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}

	keeps := withProc(programs, nfs3.Program, nfs3.ProcRemove, func(_ func(*transport.Call) error, c *transport.Call) error {
		(&nfs3.RemoveRes{Status: nfs3.ErrIO}).EncodeXDR(c.Res)
		return nil
	})
	rdma, _ = serve(t, keeps...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "/m/.nfsrdma-doctor-"}})
	if names := left(t, tcp); len(names) != 1 {
		t.Errorf("left behind: %q, want the one that was named", names)
	}
}
