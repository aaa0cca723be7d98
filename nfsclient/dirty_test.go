// What a File knows of data that is not stable: writes, COMMITs and verifiers in each order.

package nfsclient

import (
	"math/rand/v2"
	"slices"
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

// needs wants begin to report that a COMMIT is needed, or is not.
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
	l.write(verf1) // while the COMMIT is under way: it does not have to cover this one
	l.commit(m, verf1, nil)
	m = l.needs(true)
	l.commit(m, verf1, nil)
	l.needs(false)
}

func TestLossIsReportedOnce(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	l.write(verf2) // the server restarted between the two
	m := l.needs(true)
	l.commit(m, verf2, ErrLostWrites)
	l.write(verf2) // written again
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// TestWritesDuringALossyCommitAreLostToo: what was answered under the old verifier while the COMMIT
// ran is not what it reports; the next Sync does.
func TestWritesDuringALossyCommitAreLostToo(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	m := l.needs(true)
	l.write(verf1)
	l.commit(m, verf2, ErrLostWrites)
	l.commit(l.needs(true), verf2, ErrLostWrites)
	l.needs(false)
}

// TestRestartAfterSyncIsNoLoss: nothing was at stake.
func TestRestartAfterSyncIsNoLoss(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	l.commit(l.needs(true), verf1, nil)
	l.write(verf2)
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// TestEachOfTwoSyncsReportsTheLoss: both began when the data was not safe, and neither made it so.
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

// TestSyncOfOldWritesBesideNewOnes: a COMMIT that was answered before the restart holds, though
// a later write has shown the restart before its reply was seen.
func TestSyncOfOldWritesBesideNewOnes(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	m := l.needs(true)
	l.write(verf2)
	l.commit(m, verf1, nil)
	l.commit(l.needs(true), verf2, nil)
	l.needs(false)
}

// A modelWrite is what a simulated server and the File know of one write.
type modelWrite struct {
	number   uint64 // 0: its reply has not been seen
	epoch    byte   // of the server when it was done
	stable   bool
	reported bool // lost, and a Sync that covers it has said so
}

// A modelSync is a Sync in progress.
type modelSync struct {
	m     commitMark
	done  bool // at the server
	epoch byte
	told  []bool // reported, of each write when it began
}

// TestSyncsAgainstAModel: writes, Syncs and restarts in any order, with replies seen late. No Sync
// reports success with lost data that no earlier one has reported, and without a restart none
// reports a loss.
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
			case 4, 5: // its reply is seen
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

// TestSecondCommitOfTheSameWrites: its verifier says nothing of data that the first has made
// stable.
func TestSecondCommitOfTheSameWrites(t *testing.T) {
	l := &ledger{T: t}
	l.write(verf1)
	first, second := l.needs(true), l.needs(true)
	l.commit(first, verf1, nil)
	l.write(verf2)
	l.commit(second, verf2, nil)
	l.commit(l.needs(true), verf2, nil)
}

// TestCommitsAnsweredInTheOtherOrder: the one that covers more counts, whichever reply comes last.
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
