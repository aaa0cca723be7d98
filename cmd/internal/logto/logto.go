// Connects the libraries' loggers to the log of the programs.

// Package logto lets the libraries, which log to a slog.Logger, write to the programs' log, logrus.
package logto

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sirupsen/logrus"
)

// Standard writes to logrus' standard logger, with that logger's present settings.
var Standard = slog.New(&handler{to: logrus.StandardLogger()})

// A handler is a slog.Handler that writes each record as an entry of a logrus.Logger: level,
// message, time, and the attributes as fields. Hooks, formatter and output are the Logger's.
// Attributes of a group are prefixed with the group's name and a full stop.
type handler struct {
	// Set once.
	to     *logrus.Logger
	prefix string      // names of the open groups, with a full stop after each; or ""
	attrs  []slog.Attr // the attributes added by With, already with their prefix
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.to.IsLevelEnabled(levelOf(level))
}

// levelOf returns the highest logrus level that is not above a slog level.
func levelOf(level slog.Level) logrus.Level {
	switch {
	case level >= slog.LevelError:
		return logrus.ErrorLevel
	case level >= slog.LevelWarn:
		return logrus.WarnLevel
	case level >= slog.LevelInfo:
		return logrus.InfoLevel
	}
	return logrus.DebugLevel
}

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	fields := make(logrus.Fields, len(h.attrs)+r.NumAttrs())
	for _, a := range h.attrs {
		put(fields, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		put(fields, h.prefix, a)
		return true
	})
	entry := h.to.WithFields(fields)
	entry.Time = r.Time // zero: logrus uses the current time
	entry.Log(levelOf(r.Level), r.Message)
	return nil
}

// put adds an attribute to fields. Empty attributes are left out; a group adds its members.
func put(fields logrus.Fields, prefix string, a slog.Attr) {
	a.Value = a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return
	}
	if a.Value.Kind() != slog.KindGroup {
		fields[prefix+a.Key] = a.Value.Any()
		return
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, member := range a.Value.Group() {
		put(fields, prefix, member)
	}
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		if h.prefix != "" && a.Key == "" { // a group without a name: its members get the prefix
			a = slog.Attr{Key: h.prefix[:len(h.prefix)-1], Value: a.Value}
		} else {
			a.Key = h.prefix + a.Key
		}
		next.attrs = append(next.attrs, a)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.prefix += name + "."
	return &next
}
