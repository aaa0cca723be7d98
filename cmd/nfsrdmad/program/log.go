// The server's log: its level and format.

package program

import (
	"fmt"
	"log/slog"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/sirupsen/logrus"
)

// setLog validates the log flags and applies them.
func (o *options) setLog() error {
	level, err := logrus.ParseLevel(o.logLevel)
	if err != nil {
		return fmt.Errorf("--log-level %q: must be error, warning, info or debug", o.logLevel)
	}
	logrus.SetLevel(level)
	switch o.logFormat {
	case "text":
		logrus.SetFormatter(&logrus.TextFormatter{})
	case "json":
		logrus.SetFormatter(&jsonLog{logrus.JSONFormatter{TimestampFormat: "2006-01-02T15:04:05.000Z07:00"}})
	default:
		return fmt.Errorf("--log-format %q: must be text or json", o.logFormat)
	}
	return nil
}

// Logger returns the server's logger, for the file systems of a Kind.
func Logger() *slog.Logger { return logto.Standard }

// A jsonLog writes JSON lines with addresses and similar values as text rather than as structs.
// Strings chosen by clients cannot control a terminal that shows the log.
type jsonLog struct{ logrus.JSONFormatter }

// Format implements logrus.Formatter.
func (f *jsonLog) Format(e *logrus.Entry) ([]byte, error) {
	line := *e
	line.Data = make(logrus.Fields, len(e.Data))
	for name, v := range e.Data {
		if words, ok := v.(fmt.Stringer); ok {
			v = words.String()
		}
		line.Data[name] = v
	}
	b, err := f.JSONFormatter.Format(&line)
	return text.EscapeJSON(b), err
}
