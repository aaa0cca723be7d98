// The log of what peers do: a bounded number of lines per cause and second.

package transport

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// A Cause is the fixed text of a log line. Its type prevents text with a name, a number or an
// error: each text would be a cause of its own, with its own lines. Such values are fields.
type Cause string

// A RateLog writes at most one line per cause and second, in the long run, since what
// it tells of can be triggered by a remote peer as often as it likes. The zero value
// writes to logrus' standard logger.
type RateLog struct {
	mu     sync.Mutex
	causes map[Cause]*logCause
}

type logCause struct {
	last    time.Time
	room    time.Duration // for lines: each takes a second of it
	dropped int
}

// maxCauses bounds the memory of a RateLog, which has far fewer causes.
const maxCauses = 256

// Warn writes a line of the given cause, unless one was written less than a second ago.
func (l *RateLog) Warn(cause Cause, fields logrus.Fields) {
	l.write(logrus.WarnLevel, cause, 1, fields)
}

// Info writes a line that is no fault of anybody's. After a pause burst lines of a cause may come
// at once: many clients mount when a building's power is back.
func (l *RateLog) Info(cause Cause, burst int, fields logrus.Fields) {
	l.write(logrus.InfoLevel, cause, burst, fields)
}

func (l *RateLog) write(level logrus.Level, cause Cause, burst int, fields logrus.Fields) {
	dropped, ok := l.admit(cause, burst, time.Now())
	if !ok {
		return
	}
	entry := logrus.WithFields(fields)
	if dropped > 0 {
		entry = entry.WithField("suppressed", dropped)
	}
	entry.Log(level, cause)
}

// admit reports whether a line of cause may be written now, and how many were not since the last.
func (l *RateLog) admit(cause Cause, burst int, now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.causes[cause]
	if c == nil {
		if l.causes == nil {
			l.causes = map[Cause]*logCause{}
		}
		if len(l.causes) >= maxCauses {
			return 0, false
		}
		c = &logCause{last: now, room: time.Duration(burst) * time.Second}
		l.causes[cause] = c
	}
	c.room = min(c.room+max(now.Sub(c.last), 0), time.Duration(burst)*time.Second)
	if c.last = now; c.room < time.Second {
		c.dropped++
		return 0, false
	}
	c.room -= time.Second
	dropped, c.dropped = c.dropped, 0
	return dropped, true
}
