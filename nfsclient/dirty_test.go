// A File's record of unstable data: writes, COMMITs and verifiers in each order.

package nfsclient

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var verf1, verf2 = nfs3.Verf{1}, nfs3.Verf{2}

// A ledger applies a test's steps to a dirty.
type ledger struct {
	*testing.T
	dirty
}

func (l *ledger) write(v nfs3.Verf) { l.wrote(&Written{N: 1, Verf: v}) }

// needs checks whether begin asks for a COMMIT.
func (l *ledger) needs(want bool) commitMark {
	l.Helper()
	m, needed := l.begin()
	if needed != want {
		l.Errorf("COMMIT needed: %v", needed)
	}
	return m
}

func (l *ledger) commit(m commitMark, v nfs3.Verf, want error) {
	l.Helper()
	if err := l.committed(m, v); err != want {
		l.Errorf("COMMIT: %v, want %v", err, want)
	}
}

func TestWritesAfterCommitBeganNeedAnother(t *testing.T) {
	l := &ledger{T: t}
	l.needs(false)
	l.write(verf1)
	m := l.needs(true)
	l.write(verf1) // answered during the COMMIT, which need not cover this write
	l.commit(m, verf1, nil)
	m = l.needs(true)
	l.commit(m, verf1, nil)
	l.needs(false)
}

func TestLossIsReportedOnce(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	l.write(verf2) // the server restarted between the two writes
	m := l.needs(true)
	l.commit(m, verf2, ErrLostWrites)
	l.write(verf2) // the data is written again
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// A Sync does not report writes with the old verifier answered during its COMMIT; the next Sync
// does.
func TestWritesDuringALossyCommitAreLostToo(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	m := l.needs(true)
	l.write(verf1)
	l.commit(m, verf2, ErrLostWrites)
	l.commit(l.needs(true), verf2, ErrLostWrites)
	l.needs(false)
}

// A restart after a Sync loses nothing.
func TestRestartAfterSyncIsNoLoss(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	l.commit(l.needs(true), verf1, nil)
	l.write(verf2)
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// Two Syncs that began before a loss was known both report the loss.
func TestEachOfTwoSyncsReportsTheLoss(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	first, second := l.needs(true), l.needs(true)
	l.commit(first, verf2, ErrLostWrites)
	l.commit(second, verf2, ErrLostWrites)
	l.needs(false)
	l.write(verf2)
	l.commit(l.needs(true), verf2, nil)
}

// A COMMIT answered before a restart counts, even if a later write shows the restart before the
// COMMIT's reply is seen.
func TestSyncOfOldWritesBesideNewOnes(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	m := l.needs(true)
	l.write(verf2)
	l.commit(m, verf1, nil)
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// A modelWrite is the state of one write, at the simulated server and in the File.
type modelWrite struct {
	number   uint64 // 0: the reply has not been seen
	epoch    byte   // the server's epoch when the server ran the write
	stable   bool
	reported bool // lost, and reported by a Sync that covers it
}

// A modelSync is a Sync in progress.
type modelSync struct {
	m     commitMark
	done  bool // the COMMIT has run at the server
	epoch byte
	told  []bool // for each write, whether its loss was reported at the Sync's start
}

// Writes, Syncs and restarts in random order, with late replies. No Sync succeeds with lost data
// unless an earlier Sync reported the loss. Without a restart no Sync reports a loss.
func TestSyncsAgainstAModel(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 2))
		restarts := r.IntN(2)
		var d dirty
		var writes []*modelWrite
		var syncs []*modelSync
		epoch := byte(1)
		for range 30 {
			switch what := r.IntN(6 + restarts); what {
			case 0:
				writes = append(writes, &modelWrite{epoch: epoch})
			case 1: // a reply is seen
				if i := r.IntN(len(writes) + 1); i < len(writes) && writes[i].number == 0 {
					d.wrote(&Written{N: 1, Verf: nfs3.Verf{writes[i].epoch}})
					writes[i].number = d.last
				}
			case 2:
				if m, needed := d.begin(); needed {
					s := &modelSync{m: m}
					for _, w := range writes {
						s.told = append(s.told, w.reported)
					}
					syncs = append(syncs, s)
				} else if i := slices.IndexFunc(writes, func(w *modelWrite) bool { return w.number > 0 && !w.stable && !w.reported }); i >= 0 {
					t.Fatalf("seed %d: no COMMIT is needed, but write %d is not safe", seed, writes[i].number)
				}
			case 3: // a COMMIT runs
				if i := r.IntN(len(syncs) + 1); i < len(syncs) && !syncs[i].done {
					syncs[i].done, syncs[i].epoch = true, epoch
					for _, w := range writes {
						w.stable = w.stable || w.epoch == epoch
					}
				}
			case 4, 5: // the COMMIT's reply is seen
				i := slices.IndexFunc(syncs, func(s *modelSync) bool { return s.done })
				if i < 0 {
					break
				}
				s := syncs[i]
				syncs = slices.Delete(syncs, i, i+1)
				err := d.committed(s.m, nfs3.Verf{s.epoch})
				if err != nil && epoch == 1 {
					t.Fatalf("seed %d: a loss without a restart", seed)
				}
				for j, told := range s.told {
					w := writes[j]
					if w.number == 0 || w.number > s.m.last || w.stable {
						continue
					}
					if err == nil && !told {
						t.Fatalf("seed %d: write %d is lost, and Sync reports success", seed, w.number)
					}
					w.reported = true
				}
			case 6:
				epoch++
			}
		}
	}
}

// A second COMMIT's verifier means nothing for data that the first COMMIT has made stable.
func TestSecondCommitOfTheSameWrites(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	first, second := l.needs(true), l.needs(true)
	l.commit(first, verf1, nil)
	l.write(verf2)
	l.commit(second, verf2, nil)
	l.commit(l.needs(true), verf2, nil)
}

// If COMMITs are answered out of order, the COMMIT that covers more writes counts.
func TestCommitsAnsweredInTheOtherOrder(t *testing.T) {
	for verf, want := range map[nfs3.Verf]error{verf1: nil, verf2: ErrLostWrites} {
		l := &ledger{T: t}
		l.write(verf1)
		first := l.needs(true)
		l.write(verf1)
		l.commit(l.needs(true), verf, want)
		l.commit(first, verf, want)
		l.needs(false)
	}
}

func TestStableWritesNeedNoCommit(t *testing.T) {
	l := &ledger{T: t}
	l.wrote(&Written{N: 1, Committed: nfs3.FileSync, Verf: verf1})
	l.needs(false)
}
