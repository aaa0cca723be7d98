// Calls that a client does not try again.

package hostile

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestErrChunkIsNotTriedAgain: ERR_CHUNK ends a call with an error. The call is not sent again, not
// even with a larger Reply chunk, because the server may have executed it (RFC 8267 §3.1, §4).
func TestErrChunkIsNotTriedAgain(t *testing.T) {
	conformance.Proves(t, "R8166-154", "R8267-008", "R8267-015", "R8267-016")
	rig.NoLeaks(t)
	l := peer.Listen(t)
	ended := make(chan error, 1)
	go func() {
		c, err := transport.DialRDMA(bg, iwarp.Open(rnic.DeviceConfig{}), l.Addr(), transport.ClientConfig{})
		ended <- err
		if err != nil {
			return
		}
		defer c.Close()
		for _, proc := range []uint32{nfs3.ProcReaddir, nfs3.ProcRemove, nfs3.ProcNull} {
			p := &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: proc, MaxReply: 9000}
			ended <- c.Call(bg, p, nil, nil, nil, 0)
		}
	}()
	p := l.Accept()
	p.Message(peer.Success(p.NextCall(), 4)) // the client's first call checks the connection
	if err := <-ended; err != nil {
		t.Fatalf("at its end: %v", err)
	}
	for _, proc := range []uint32{nfs3.ProcReaddir, nfs3.ProcRemove, nfs3.ProcNull} {
		msg, err := p.Next()
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		var h rpcrdma.Header
		if err := h.Parse(msg); err != nil {
			t.Fatalf("Parse: %v", err)
		}
		if got := binary.BigEndian.Uint32(msg[h.Len+20:]); got != proc {
			t.Fatalf("procedure %d is called, want %d", got, proc)
		}
		if proc == nfs3.ProcNull {
			p.Message(h.Append(nil)) // no RPC message: dropped
			h.HasReply, h.Credits = true, 4
			h.Reply.Unuse()
			p.Message(append(h.Append(nil), peer.Words(h.XID, 1, 0, 0, 0, 0)...))
			if err := <-ended; err != nil {
				t.Errorf("at its end: %v", err)
			}
			return
		}
		p.Message(peer.Words(h.XID, 1, 4, 4, 2))
		if err := <-ended; !errors.Is(err, rpcrdma.ErrChunk) {
			t.Errorf("procedure %d: %v", proc, err)
		}
	}
}
