// How long the receiver of a large transfer looks for more of it before it sleeps.

package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/internal/look"
)

const (
	// leastLooks is how often it looks in any case: for about what it costs both ends to have it
	// sleep and be woken, where nobody else has a turn.
	leastLooks = 50

	// patienceMost is how long it looks where that would have found what it has slept for. A sender
	// of this machine makes and sends a batch in less.
	patienceMost = 200 * time.Microsecond
)

// A patience is how long a receiver looks, each time after everybody else had a turn. To wake it
// costs the sender, which is the busier one where payload comes from a file, more than the
// receiver's looks cost anybody; but of a sender that takes longer than patienceMost for as much as
// is read at once, as on most networks, looks find nothing. So it looks for longer where that would
// have found what it has slept for the last time. Beside small calls it does not: who looks is a
// goroutine less that waits for them.
type patience struct {
	long  bool      // it looks for patienceMost
	slept bool      // it has looked for as long as it does, since the last input
	since time.Time // of the first look in vain; zero: none since the last input
	looks int       // since then
	calls uint64    // small inputs of the process until then
}

// more reports whether to look again, after a look in vain.
func (p *patience) more(now time.Time) bool {
	if p.since.IsZero() {
		p.since, p.looks = now, 0
		if n := look.Inputs(); n != p.calls {
			p.long, p.calls = false, n
		}
	}
	p.looks++
	p.slept = p.looks > leastLooks && (!p.long || now.Sub(p.since) >= patienceMost)
	return !p.slept
}

// found notes input of a large transfer, which the receiver has looked for, and slept for after
// that.
func (p *patience) found(now time.Time) {
	if p.since.IsZero() {
		return
	}
	if now.Sub(p.since) > patienceMost {
		p.long = false
	} else if p.slept {
		p.long = true
	}
	p.since = time.Time{}
}
