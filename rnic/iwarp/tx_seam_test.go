// No trailer is cut by the end of a TCP segment if the peer may reject that.

package iwarp

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A narrowLink has Ethernet's segment size, and counts batches.
type narrowLink struct {
	countingLink
}

func (l *narrowLink) mss() int { return 1448 }

func narrow(qp *rnic.QP) *narrowLink {
	tx := &streamOf(qp).tx
	tx.mu.Lock()
	defer tx.mu.Unlock()
	l := &narrowLink{countingLink{link: tx.link}}
	tx.link = l
	return l
}

// TestSeam: the second of two FPDUs gets a separate batch exactly if the TCP segment would end
// inside its trailer. A responder does so only if the initiator has not asked for CRCs, as Linux
// siw does not.
func TestSeam(t *testing.T) {
	on, off, auto := rnic.DeviceConfig{CRC: rnic.CRCOn}, rnic.DeviceConfig{CRC: rnic.CRCOff}, rnic.DeviceConfig{CRC: rnic.CRCAuto}
	const first = 1000 // its FPDU has 1020 bytes
	for _, c := range []struct {
		name                 string
		initiator, responder rnic.DeviceConfig
		second               int
		writes, responses    int // batches of the initiator, of the responder
	}{
		{"pad up to the end", on, auto, 409, 2, 1},
		{"two bytes of pad", on, auto, 410, 2, 1},
		{"one byte of pad", on, auto, 411, 2, 1},
		{"CRC up to the end", on, auto, 408, 1, 1},
		{"no pad", on, auto, 412, 1, 1},
		{"pad behind the end", on, auto, 413, 1, 1},
		{"CRC of the responder's wish", auto, on, 410, 2, 2},
		{"CRC of the responder's wish, no pad", auto, on, 412, 1, 1},
		{"CRC of both", on, on, 410, 2, 1},
		{"CRC of neither", auto, off, 410, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := joined(t, c.initiator, c.responder, 8)
			dst, _ := b.pd.RegMR(make([]byte, 4096), rnic.RemoteWrite|rnic.RemoteRead)
			sink, _ := a.pd.RegMR(make([]byte, 4096), rnic.LocalWrite)
			la, lb := narrow(a.qp), narrow(b.qp)
			write := func(id uint64, n int) rnic.SendWR {
				return rnic.SendWR{ID: id, Op: rnic.OpWrite, SGL: [][]byte{make([]byte, n)}, RemoteSTag: dst.STag(), RemoteTO: dst.Base()}
			}
			post(t, a.qp, write(1, first), write(2, c.second))
			a.want(t, rnic.OpWrite, 1, rnic.WCSuccess)
			a.want(t, rnic.OpWrite, 2, rnic.WCSuccess)
			writes := la.calls
			read := func(id uint64, n int) rnic.SendWR {
				return rnic.SendWR{ID: id, Op: rnic.OpRead, MR: sink, Length: uint32(n), RemoteSTag: dst.STag(), RemoteTO: dst.Base()}
			}
			post(t, a.qp, read(3, first), read(4, c.second))
			a.want(t, rnic.OpRead, 3, rnic.WCSuccess)
			a.want(t, rnic.OpRead, 4, rnic.WCSuccess)
			a.qp.Close()
			b.qp.Close()
			if writes != c.writes || lb.calls != c.responses {
				t.Errorf("%d batches of Writes, %d of responses, want %d and %d", writes, lb.calls, c.writes, c.responses)
			}
		})
	}
}
