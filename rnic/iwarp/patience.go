// How long the receiver of a large transfer looks for more of it before it sleeps.

package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/internal/look"
)

const (
	// patienceLeast is how long it looks where what it sleeps for is far away: about what it costs both ends to have it sleep and be woken.
	patienceLeast = 50 * time.Microsecond

	// patienceMost is how long it looks where that would have found what it has slept for. A sender of this machine makes and sends a
	// batch in less.
	patienceMost = 200 * time.Microsecond
)

// A patience is how long a receiver looks, each time after everybody else had a turn. To wake it costs the sender, which is the busier one where
// payload comes from a file, more than the receiver's looks cost anybody; but of a sender that takes longer than patienceMost for as much as is
// read at once, as on most networks, looks find nothing. So it looks for longer where that would have found what it has slept for the last time.
// Beside small calls it does not: who looks is a goroutine less that waits for them.
type patience struct {
	long  time.Duration // how long it looks; 0: not known yet
	since time.Time     // of the first look in vain; zero: none since the last input
	calls uint64        // small inputs of the process until then
}

// more reports whether to look again, after a look in vain.
func (p *patience) more(now time.Time) bool {
	if p.since.IsZero() {
		p.since = now
		if n := look.Inputs(); p.long == 0 || n != p.calls {
			p.long, p.calls = patienceLeast, n
		}
	}
	return now.Sub(p.since) < p.long
}

// found notes input of a large transfer, which the receiver has looked for, and slept for after that.
func (p *patience) found(now time.Time) {
	if p.since.IsZero() {
		return
	}
	switch waited := now.Sub(p.since); {
	case waited > patienceMost:
		p.long = patienceLeast
	case waited > p.long:
		p.long = patienceMost
	}
	p.since = time.Time{}
}
