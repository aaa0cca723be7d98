// The full screen: its contents, and the effect of each key.

package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// Limits of the interval set by keys.
const (
	shortest = 100 * time.Millisecond
	longest  = time.Minute
)

// A screen is the state of the display.
type screen struct {
	style
	interval time.Duration
	server   string
	before   *Snapshot // the newest snapshot
	report   *Report   // nil: the first interval has not ended
	err      error     // why the newest request failed, or nil
	help     bool
}

// An action is the effect of a key other than redrawing.
type action int

const (
	nothing action = iota
	quit
	now        // another report
	reschedule // the interval has changed
)

const helpText = `c  sort by calls            q  quit
b  sort by bytes            space, Enter  report now
t  sort by mean time        + -  longer, shorter interval
p  sort by p99              h ?  this help
u  sort by queue
e  sort by errors
n  sort by name

OPERATION  procedure of NFS, or of the program before it
OVER       transport
MEAN, P99  time that it ran, without the network; P99 is 10s where it is longer
QUEUE      calls of it that ran at once, on average
CREDITS    calls of a client in the server over RDMA, and how many it may have
repeated   calls that clients have sent again
CLIENT     connections; only with --local
SECURITY   TLS (tls, or mtls if both ends have certificates), and the flavors of the users
USERS      user numbers that the client has called as, those with the most calls first
CIPHER     cipher of TLS`

// key handles one key.
func (s *screen) key(k byte) action {
	if by, ok := orderKeys[k]; ok {
		s.order = by
		return nothing
	}
	switch k {
	case 'q', 'Q', 4: // Ctrl-D
		return quit
	case ' ', '\r', '\n':
		return now
	case 'h', '?':
		s.help = !s.help
	case '+', '-':
		was := s.interval
		if k == '+' {
			s.interval = min(2*s.interval, longest)
		} else {
			s.interval = max(s.interval/2, shortest)
		}
		if s.interval != was {
			return reschedule
		}
	}
	return nothing
}

// update stores a new snapshot, or the error in its place.
func (s *screen) update(next *Snapshot, err error) {
	if s.err = err; err != nil {
		return
	}
	if s.before != nil {
		s.report = next.since(s.before, s.server)
	}
	s.before = next
}

// draw returns the complete output for the terminal.
func (s *screen) draw() string {
	body := style{s.width, max(s.height-1, 1), s.order, s.colors}
	var lines []string
	switch {
	case s.help:
		for line := range strings.SplitSeq(helpText, "\n") {
			lines = append(lines, body.cut(line))
		}
		lines = lines[:min(len(lines), body.height)]
	case s.report == nil:
		lines = []string{body.cut("nfsrdma top: " + text.HideControl(s.server) + ", the first report comes after the interval")}
	default:
		lines = body.lines(s.report)
	}
	for len(lines) < body.height {
		lines = append(lines, "")
	}
	if s.height > 1 {
		lines = append(lines, s.footer())
	}
	return topLeft + strings.Join(lines, eraseLine+"\r\n") + eraseLine + eraseScreen
}

func (s *screen) footer() string {
	if s.err != nil {
		return s.with(red, s.cut("no answer: "+text.HideControl(s.err.Error())))
	}
	return s.cut(fmt.Sprintf("every %v, by %s   q quit  space now  + - interval  c b t p u e n sort  h help", s.interval, s.order))
}
