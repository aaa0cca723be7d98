// The libraries' lines in the programs' log look as if written to logrus.

package logto

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/sirupsen/logrus"
)

// formats are nfsrdmad's log formats; the test's formatter omits the time.
var formats = map[string]logrus.Formatter{
	"text": &logrus.TextFormatter{DisableTimestamp: true},
	"JSON": &logrus.JSONFormatter{DisableTimestamp: true},
}

// values has values that libraries log, each under its own key.
var values = []any{
	"peer", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, "addr", netip.MustParseAddr("fe80::1%eth0"), "error", errors.New(`no "such" file`),
	"vers", 3, "as-uid", uint32(65534), "count", uint64(1) << 63, "dir", "/a\x1b b\n", "empty", "", "RDMA", true, "wait", 90 * time.Second, "share", 0.5, "none", nil,
}

// TestSameLine: slog and logrus lines are byte-identical.
func TestSameLine(t *testing.T) {
	fields := logrus.Fields{}
	for i := 0; i < len(values); i += 2 {
		fields[values[i].(string)] = values[i+1]
	}
	for name, format := range formats {
		for level, by := range map[logrus.Level]slog.Level{logrus.DebugLevel: slog.LevelDebug, logrus.InfoLevel: slog.LevelInfo,
			logrus.WarnLevel: slog.LevelWarn, logrus.ErrorLevel: slog.LevelError} {
			var got, want bytes.Buffer
			to := &logrus.Logger{Out: &want, Formatter: format, Level: logrus.DebugLevel}
			to.WithFields(fields).Log(level, `mount of "x"`)
			to.Out = &got
			slog.New(&handler{to: to}).Log(t.Context(), by, `mount of "x"`, values...)
			if got.String() != want.String() {
				t.Errorf("%s, %v: got  %q\nwant %q", name, level, &got, &want)
			}
		}
	}
}

// TestLevel: records below logrus' level are not created, whenever the level is set.
func TestLevel(t *testing.T) {
	to := &logrus.Logger{Level: logrus.WarnLevel}
	l := slog.New(&handler{to: to})
	if l.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("info is enabled at level warning")
	}
	if !l.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("warning is not enabled at level warning")
	}
	to.SetLevel(logrus.DebugLevel)
	if !l.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("debug is not enabled at level debug")
	}
}

// TestHandler: the handler obeys the rules of slog.Handler.
func TestHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		if strings.HasSuffix(t.Name(), "/zero-time") {
			t.Skip("lines of logrus always have a time")
		}
		out.Reset()
		return &handler{to: &logrus.Logger{Out: &out, Formatter: &logrus.JSONFormatter{}, Level: logrus.DebugLevel}}
	}, func(t *testing.T) map[string]any {
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%v: %q", err, &out)
		}
		return nested(line)
	})
}

// nested converts keys with full stops to nested objects.
func nested(line map[string]any) map[string]any {
	all := map[string]any{}
	for key, v := range line {
		at, names := all, strings.Split(key, ".")
		for _, name := range names[:len(names)-1] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		at[names[len(names)-1]] = v
	}
	return all
}
