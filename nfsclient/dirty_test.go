// What a File knows of data that is not stable: writes, COMMITs and verifiers in each order.

package nfsclient

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var verf1, verf2 = nfs3.Verf{1}, nfs3.Verf{2}

// A ledger is a dirty with what a test does to it.
type ledger struct {
	*testing.T
	dirty
}

func (l *ledger) write(v nfs3.Verf) { l.wrote(&Written{N: 1, Verf: v}) }

// needs wants begin to say whether a COMMIT is needed.
func (l *ledger) needs(want bool) (gen uint64) {
	l.Helper()
	gen, needed := l.begin()
	if needed != want {
		l.Errorf("COMMIT needed: %v", needed)
	}
	return gen
}

func (l *ledger) commit(gen uint64, v nfs3.Verf, want error) {
	l.Helper()
	if err := l.committed(gen, v); err != want {
		l.Errorf("COMMIT: %v, want %v", err, want)
	}
}

func TestWritesAfterCommitBeganNeedAnother(t *testing.T) {
	l := &ledger{T: t}
	l.needs(false)
	l.write(verf1)
	gen := l.needs(true)
	l.write(verf1) // while the COMMIT is under way: it may not cover this one
	l.commit(gen, verf1, nil)
	gen = l.needs(true)
	l.commit(gen, verf1, nil)
	l.needs(false)
}

func TestLossIsToldOnce(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	l.write(verf2) // the server restarted between the two
	gen := l.needs(true)
	l.commit(gen, verf2, ErrLostWrites)
	l.write(verf2) // written again
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// TestRestartBeforeCommitWithLaterWrites: what was written while the COMMIT ran belongs to the next one,
// under the verifier that the COMMIT brought.
func TestRestartBeforeCommitWithLaterWrites(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	gen := l.needs(true)
	l.write(verf1)
	l.commit(gen, verf2, ErrLostWrites)
	gen = l.needs(true)
	l.commit(gen, verf2, nil)
	l.needs(false)
}

// TestSecondCommitOfTheSameWrites: its verifier says nothing of data that the first has made stable.
func TestSecondCommitOfTheSameWrites(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	first, second := l.needs(true), l.needs(true)
	l.commit(first, verf1, nil)
	l.commit(second, verf2, nil)
}

func TestStableWritesNeedNoCommit(t *testing.T) {
	l := &ledger{T: t}
	l.wrote(&Written{N: 1, Committed: nfs3.FileSync, Verf: verf1})
	l.needs(false)
}
