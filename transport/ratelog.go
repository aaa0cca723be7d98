// The log about peers' actions: a bounded number of lines for each cause and second.

package transport

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A Cause is a log line's fixed text. The type prevents text with a name, a number or an error,
// because each such text would be another cause, with its own lines. Names, numbers and errors are
// fields.
type Cause string

// A RateLog writes at most one line for each cause and second, in the long run, because remote
// peers can trigger lines at any rate. A RateLog is safe for concurrent use. The zero value is
// ready.
type RateLog struct {
	Logger *slog.Logger // destination; nil: slog.Default(). Set before use

	mu     sync.Mutex
	causes map[Cause]*logCause
}

type logCause struct {
	last    time.Time
	room    time.Duration // credit for lines: each takes a second
	dropped int
}

// Warn writes a line with the given cause, unless one was written less than a second ago. fields
// are alternating names and values, as for slog.Logger.
func (l *RateLog) Warn(cause Cause, fields ...any) {
	l.write(slog.LevelWarn, cause, 1, fields)
}

// Info writes a line that reports no error. After a pause a cause may have burst lines at once:
// many clients mount together after a power failure.
func (l *RateLog) Info(cause Cause, burst int, fields ...any) {
	l.write(slog.LevelInfo, cause, burst, fields)
}

func (l *RateLog) write(level slog.Level, cause Cause, burst int, fields []any) {
	dropped, ok := l.admit(cause, burst, time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		fields = append(slices.Clip(fields), "suppressed", dropped)
	}
	logger := l.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Log(context.Background(), level, string(cause), fields...)
}

// admit reports whether to write a line for cause, and the number of lines dropped since the
// last.
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
