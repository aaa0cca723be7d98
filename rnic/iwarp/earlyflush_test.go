// The replies that leave before a long batch is done.

package iwarp

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// An answerer answers each message from the CQ's handler, after a time per message, and records how
// many answers have left by then.
type answerer struct {
	*piped
	after []time.Duration // handler times for the next messages; empty: none
	left  []uint64        // number of answers that have left, after each post
	from  uint64          // bytes that the stream had moved before the batch
}

// answerBytes is the length of an answer in the stream: the FPDU of an empty Send.
const answerBytes = 24

func (a *answerer) handle() {
	var wc [1]rnic.WC
	for a.cq.Poll(wc[:]) > 0 {
		if wc[0].Op != rnic.OpRecv || wc[0].Status != rnic.WCSuccess {
			continue
		}
		recv(a.t, a.qp, 1, nil)
		if len(a.after) > 0 {
			time.Sleep(a.after[0]) // simulated: the handler works
			a.after = a.after[1:]
		}
		post(a.t, a.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
		a.left = append(a.left, (a.qp.Moved()-a.from)/answerBytes)
	}
}

// batch makes n messages arrive at once.
func (a *answerer) batch(msn *uint32, n int) {
	synctest.Wait() // bytes that have left are counted
	a.from, a.left = a.qp.Moved(), nil
	a.say(messages(msn, n))
	for range n {
		a.hearULPDU()
	}
	synctest.Wait() // the last answer has been noted
}

// messages returns the next n messages of a peer: empty Sends.
func messages(msn *uint32, n int) (b []byte) {
	for range n {
		*msn++
		b = mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, *msn, 0, nil))
	}
	return b
}

// answering runs f with an answerer.
func answering(t *testing.T, f func(a *answerer, msn *uint32)) {
	t.Helper()
	byPipe(t, func(k *piped) {
		a := &answerer{piped: k}
		for range 15 {
			recv(t, k.qp, 1, nil)
		}
		k.cq.SetHandler(a.handle)
		var msn uint32
		f(a, &msn)
	})
}

// row makes enough short batches for the stream to count as alone on its device.
func (a *answerer) row(t *testing.T, msn *uint32) {
	t.Helper()
	for range 1 + lead.AloneMin {
		recv(t, a.qp, 1, nil)
		a.batch(msn, 1)
	}
}

// TestLongBatchIsAnsweredInParts: the posts of the first earlyFlushTime leave with the next post,
// once for each batch. The others leave at the end.
func TestLongBatchIsAnsweredInParts(t *testing.T) {
	answering(t, func(a *answerer, msn *uint32) {
		a.row(t, msn)
		for range 2 {
			a.after = []time.Duration{earlyFlushTime - 1, 0, 1, 0, 3 * earlyFlushTime}
			a.batch(msn, 8)
			if want := []uint64{0, 0, 3, 3, 3, 3, 3, 3}; !slices.Equal(a.left, want) {
				t.Errorf("answers that had left after each post: %v, want %v", a.left, want)
			}
		}
	})
}

// The answers to a short batch leave together, and no part is due after it.
func TestShortBatchIsAnsweredWhole(t *testing.T) {
	answering(t, func(a *answerer, msn *uint32) {
		a.row(t, msn)
		a.batch(msn, 4)
		if want := []uint64{0, 0, 0, 0}; !slices.Equal(a.left, want) {
			t.Errorf("answers that had left after each post: %v, want %v", a.left, want)
		}
		time.Sleep(time.Second)
		if streamOf(a.qp).early.due() {
			t.Error("a part is due with no batch")
		}
	})
}

// Beside another stream of the device a batch leaves whole.
func TestBatchBesideAnotherIsAnsweredWhole(t *testing.T) {
	answering(t, func(a *answerer, msn *uint32) {
		a.row(t, msn)
		streamOf(a.qp).p.latest.Store(new(earlyFlush)) // another stream has had a batch
		a.after = []time.Duration{3 * earlyFlushTime}
		a.batch(msn, 4)
		if want := []uint64{0, 0, 0, 0}; !slices.Equal(a.left, want) {
			t.Errorf("answers that had left after each post: %v, want %v", a.left, want)
		}
	})
}
