// Atomic operations of many QPs at once.

package iwarp

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// Counters lose no addition when several QPs add through two regions of the same memory. This holds
// in each mode of CRC and markers, with more operations outstanding than the ORD, among Reads and
// Immediate Data.
func TestAtomicSum(t *testing.T) {
	conformance.Proves(t, "R5040-261", "R5040-262", "R5040-267")
	const each, qps = 60, 4
	for _, cfg := range []rnic.DeviceConfig{{Extensions: true}, {Extensions: true, CRC: rnic.CRCOff}, {Extensions: true, Markers: true, MaxORD: 2}} {
		t.Run(fmt.Sprintf("%v %v", cfg.CRC, cfg.Markers), func(t *testing.T) {
			mem := make([]byte, 16)
			dev := Open(cfg)
			var wg sync.WaitGroup
			for g := range qps {
				a, b := newSide(t, cfg, 512), newSide(t, cfg, 512)
				b.dev, b.pd = dev, dev.AllocPD()
				qp, err := b.pd.CreateQP(rnic.QPConfig{SendCQ: b.cq, RecvCQ: b.cq, SQDepth: 512, RQDepth: 512})
				if err != nil {
					t.Fatalf("CreateQP: %v", err)
				}
				t.Cleanup(func() { qp.Close() })
				b.qp = qp
				for i := range uint64(each) {
					recv(t, b.qp, i, nil)
				}
				join(t, a, b)
				mr, _ := b.pd.RegMR(mem, rnic.RemoteAtomic|rnic.RemoteRead)
				sink, _ := a.pd.RegMR(make([]byte, 8), rnic.LocalWrite)
				wg.Go(func() {
					for i := range uint64(each) {
						err := a.qp.PostSend(
							rnic.SendWR{ID: 3 * i, Op: rnic.OpFetchAdd, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 8, Atomic: &rnic.Atomic{Data: uint64(g) + 1}},
							rnic.SendWR{ID: 3*i + 1, Op: rnic.OpRead, RemoteSTag: mr.STag(), RemoteTO: mr.Base(), MR: sink, Length: 8},
							rnic.SendWR{ID: 3*i + 2, Op: rnic.OpImmediate, Immediate: i})
						if err != nil {
							t.Error(err)
							return
						}
					}
					last := uint64(0)
					for i := range uint64(each) {
						if wc := a.want(t, rnic.OpFetchAdd, 3*i, rnic.WCSuccess); i > 0 && wc.Value <= last {
							t.Errorf("%d after %d", wc.Value, last)
						} else {
							last = wc.Value
						}
						a.want(t, rnic.OpRead, 3*i+1, rnic.WCSuccess)
						a.want(t, rnic.OpImmediate, 3*i+2, rnic.WCSuccess)
					}
					for i := range uint64(each) {
						if wc := b.want(t, rnic.OpRecv, i, rnic.WCSuccess); wc.Value != i || !wc.Immediate {
							t.Errorf("%+v", wc)
						}
					}
				})
			}
			wg.Wait()
			if got := binary.NativeEndian.Uint64(mem[8:]); got != each*qps*(qps+1)/2 {
				t.Errorf("%d", got)
			}
		})
	}
}
