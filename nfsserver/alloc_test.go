// The hot procedures allocate nothing.

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestAllocations runs GETATTR and WRITE as the dispatcher does, without a connection.
func TestAllocations(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f := c.file(c.root, "f", 0o644)
		procs := h.srv.Programs()[0].Procs
		for proc, args := range map[uint32]xdr.Marshaler{
			nfs3.ProcGetattr: &nfs3.GetattrArgs{FH: f},
			nfs3.ProcAccess:  &nfs3.AccessArgs{FH: f, Access: nfs3.AccessAll},
			nfs3.ProcWrite:   &nfs3.WriteArgs{FH: f, Count: 8192, Data: make([]byte, 8192)},
		} {
			e := xdr.NewEncoder(nil)
			args.EncodeXDR(e)
			msg, items := e.Bytes(), e.Items()
			buf := make([]byte, 0, 512)
			call := transport.Call{Cred: root, Args: xdr.NewDecoder(nil), Res: xdr.NewEncoder(nil)}
			run := func() {
				call.Args.Reset(msg, items)
				call.Res.Reset(buf)
				if err := procs[proc].Run(&call); err != nil || call.Res.Bytes()[3] != 0 {
					t.Fatalf("%s: %v, %x", procs[proc].Name, err, call.Res.Bytes())
				}
			}
			run()
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s: %v allocations", procs[proc].Name, n)
			}
		}
	})
}
