// Reads that are repeated to a peer that answers again only what it remembers, as Linux rxe does.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A rememberer is a responder that remembers the last Read Requests, and drops one that came before unless it asks for the end of one
// of those.
type rememberer struct {
	t    *testing.T
	side *side
	seen [][2]uint32 // PSN of the first packet, and of the last
	most int
	deaf bool // it drops all that came before
}

func (m *rememberer) takes(to *side, f frame) bool {
	m.side.qp.res.early.clear() // rxe keeps no request that comes early
	h, _ := f.header(m.t)
	if to != m.side || h.Opcode != packet.RCReadRequest {
		return true
	}
	last := (h.PSN + packets(h.RETH.Length, 256) - 1) & maxPSN
	if distance(h.PSN, m.side.qp.in.epsn) >= halfCircle {
		for _, r := range m.seen {
			if distance(h.PSN, r[0]) <= distance(r[1], r[0]) {
				return last == r[1] && !m.deaf
			}
		}
		return false
	}
	if h.PSN == m.side.qp.in.epsn {
		m.seen = append(m.seen, [2]uint32{h.PSN, last})
		m.seen = m.seen[max(0, len(m.seen)-m.most):]
	}
	return true
}

// remembering is a Read of 200 packets from such a peer, with a window to begin with.
func remembering(t *testing.T, seed uint64, h harm, deaf bool, window uint32) (w *world, got, mem []byte) {
	a, b := reliables(t, 256, 0xffffd0, nil)
	const n = 200*256 - 7
	mr, mem := b.host.region(t, n, rnic.RemoteRead)
	copy(mem, pattern(n, int(seed)))
	sink, got := a.host.region(t, n, rnic.LocalWrite)
	a.qp.req.window = window
	a.post(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Length: n, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	w = newWorld(t, seed, a, b, h)
	w.takes = (&rememberer{t: t, side: b, most: 4, deaf: deaf}).takes
	for w.step() {
	}
	return w, got, mem
}

// A Read is asked for again as far as the request went that asked first, wherever its data was lost; also where nothing was lost for so long
// that requests are wide.
func TestReadsAreRepeatedToTheirEnd(t *testing.T) {
	for _, window := range []uint32{initialWindow, widest(256)} {
		for seed := range uint64(50) {
			w, got, mem := remembering(t, seed, harm{lose: int(seed), delay: 50_000}, false, window)
			if wcs := w.sides[0].completions(); len(wcs) != 1 || wcs[0].Status != rnic.WCSuccess || string(got) != string(mem) {
				t.Fatalf("window %d, seed %d: %v, QP: %v", window, seed, wcs, w.sides[0].vqp.Err())
			}
		}
	}
}

// A Read that nobody answers again ends the QP when the retries are used up, whatever was repeated early meanwhile.
func TestReadThatIsNeverAnsweredAgain(t *testing.T) {
	w, _, _ := remembering(t, 1, harm{lose: 50, delay: 50_000}, true, initialWindow)
	all := Instant(4096<<14) * 255 // of the first time and seven retries, each twice as long
	if err := w.sides[0].qp.Ended(); !errors.Is(err, ErrRetry) || w.now < all-1e9 || w.now > all+1e9 {
		t.Fatalf("ended with %v after %d ns, want about %d", err, w.now, all)
	}
	if w.sent > 400 {
		t.Errorf("%d packets", w.sent)
	}
}
