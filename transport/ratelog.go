// The log of what peers do: at most one line per cause and second.

package transport

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// A RateLog writes at most one line per cause and second, since what it tells
// of can be triggered by a remote peer as often as it likes. The zero value
// writes to logrus' standard logger.
type RateLog struct {
	mu     sync.Mutex
	causes map[string]*logCause
}

type logCause struct {
	last    time.Time
	dropped int
}

// maxCauses bounds the memory of a RateLog. Causes are fixed strings of the
// program, never made of what a peer sent, so it is not reached.
const maxCauses = 256

// Warn writes a line of the given cause, unless one was written less than a second ago.
func (l *RateLog) Warn(cause string, fields logrus.Fields) {
	dropped, ok := l.admit(cause, time.Now())
	if !ok {
		return
	}
	entry := logrus.WithFields(fields)
	if dropped > 0 {
		entry = entry.WithField("suppressed", dropped)
	}
	entry.Warn(cause)
}

// admit reports whether a line of cause may be written now, and how many were not since the last.
func (l *RateLog) admit(cause string, now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.causes[cause]
	if c == nil {
		if l.causes == nil {
			l.causes = map[string]*logCause{}
		}
		if len(l.causes) >= maxCauses {
			return 0, false
		}
		c = &logCause{}
		l.causes[cause] = c
	} else if now.Sub(c.last) < time.Second {
		c.dropped++
		return 0, false
	}
	dropped, c.dropped, c.last = c.dropped, 0, now
	return dropped, true
}
