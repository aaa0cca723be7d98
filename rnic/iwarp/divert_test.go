// Memory that is replaced while the peer writes to it.

package iwarp

import (
	"bytes"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestDivert: after Divert, bytes are placed in the new memory, and the stream continues. An
// invalid MR stays invalid.
func TestDivert(t *testing.T) {
	for i := range 20 {
		cfg := rnic.DeviceConfig{CRC: rnic.CRCMode(i%2) * rnic.CRCOff} // read into the buffer, or directly
		a, b := joined(t, cfg, cfg, 64)
		mem, other := make([]byte, 64<<10), make([]byte, 64<<10)
		mr, _ := b.pd.RegMR(mem, rnic.RemoteWrite)
		ones := bytes.Repeat([]byte{1}, len(mem))
		stag, to := mr.STag(), mr.Base()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 64 {
				a.qp.PostSend(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{ones}, RemoteSTag: stag, RemoteTO: to, Unsignaled: true})
			}
		})
		for !begun(b.qp) {
		}
		if !mr.Divert(other) || mr.STag() != stag {
			t.Fatal("not exchanged")
		}
		clear(mem)
		wg.Wait()
		recv(t, b.qp, 1, nil)
		post(t, a.qp, rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{ones}, RemoteSTag: stag, RemoteTO: to, Unsignaled: true},
			rnic.SendWR{Op: rnic.OpSend, Unsignaled: true})
		b.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
		if !bytes.Equal(other, ones) {
			t.Fatal("not placed in the memory that took its place")
		}
		if err := b.qp.Err(); err != nil {
			t.Fatalf("Err: %v", err)
		}
		a.qp.Close()
		b.qp.Close()
		if !bytes.Equal(mem, make([]byte, len(mem))) {
			t.Fatal("a byte was placed in the old memory")
		}
		mr.Invalidate()
		if mr.Divert(other) || mr.Valid() {
			t.Fatal("Divert made an MR valid")
		}
		if mr.Len() != 0 {
			t.Fatalf("an invalid MR has %d bytes", mr.Len())
		}
	}
}
