// Health checks that several callers request at once.

package nfsserver

import (
	"testing"
	"time"
)

// A waitingFS reports each Getattr on asked, and answers after a receive from answer.
type waitingFS struct {
	FS
	asked, answer chan struct{}
}

func (f *waitingFS) Getattr(Ref) (Attr, error) {
	f.asked <- struct{}{}
	<-f.answer
	return Attr{}, nil
}

// TestTwoAskAtOnce: one query of an export answers all concurrent callers. A later caller causes
// another query.
func TestTwoAskAtOnce(t *testing.T) {
	f := &waitingFS{asked: make(chan struct{}), answer: make(chan struct{})}
	x := &export{fs: f}
	if x.check() != nil {
		t.Error("an export that is not open is asked")
	}
	x.ready.Store(true)
	for round := range 2 {
		first := x.check()
		<-f.asked
		second := x.check()
		f.answer <- struct{}{}
		for i, q := range []*healthCheck{first, second} {
			late := false
			if !q.passed(time.After(time.Hour), &late) {
				t.Errorf("round %d, caller %d: no answer", round, i)
			}
		}
	}
}

// TestAnswerThatIsLate: an export that does not answer in time does not delay the checks of the
// next exports.
func TestAnswerThatIsLate(t *testing.T) {
	over := make(chan time.Time)
	close(over)
	late := false
	silent := &healthCheck{over: make(chan struct{})}
	if silent.passed(over, &late) || !late {
		t.Errorf("without an answer: late %t, want true", late)
	}
	quick := &healthCheck{over: make(chan struct{}), answers: true}
	close(quick.over)
	if !quick.passed(nil, &late) {
		t.Error("an answer that came after the end is not seen")
	}
}
