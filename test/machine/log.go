// The libraries' log, for tests.

package machine

import (
	"context"
	"io"
	"log"
	"log/slog"
	"testing"
)

// A LogLine is a line logged by a library.
type LogLine struct {
	Level   slog.Level
	Message string
	Fields  map[string]any
}

// LogTo returns a logger that calls take for each line, on the logging goroutine.
func LogTo(take func(LogLine)) *slog.Logger { return slog.New(lineHandler(take)) }

// CaptureLog installs LogTo(take) as this process's default logger until the end of the test.
func CaptureLog(t testing.TB, take func(LogLine)) {
	t.Helper()
	old, to, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(LogTo(take))
	t.Cleanup(func() {
		slog.SetDefault(old)
		log.SetOutput(to) // SetDefault has also changed package log's output
		log.SetFlags(flags)
	})
}

// QuietLog silences this process's default logger, for TestMain.
func QuietLog() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	log.SetOutput(io.Discard)
}

// lineHandler is a slog.Handler without groups and With, which the libraries do not use.
type lineHandler func(LogLine)

func (lineHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := LogLine{r.Level, r.Message, map[string]any{}}
	r.Attrs(func(a slog.Attr) bool {
		line.Fields[a.Key] = a.Value.Any()
		return true
	})
	h(line)
	return nil
}

func (h lineHandler) WithAttrs([]slog.Attr) slog.Handler { panic("With is not supported") }

func (h lineHandler) WithGroup(string) slog.Handler { panic("WithGroup is not supported") }
