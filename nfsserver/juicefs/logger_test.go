// The logger of a volume.

package juicefs

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestLoggerOfTheProgram: without a Logger each line goes to the default logger at that time, not
// to the one from when the volume was opened.
func TestLoggerOfTheProgram(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	gone := &FS{log: f.log, settings: func() (*meta.Format, error) { return nil, errors.New("database is not formatted") }}
	o := openVolumes{set: map[*FS]bool{f: true, gone: true}, ended: 2}
	end := endProcess
	defer func() { endProcess = end }()
	endProcess = func() {}

	var got []string
	machine.CaptureLog(t, func(l machine.LogLine) { got = append(got, l.Message) })
	f.files.objects.note(time.Now(), tls.RecordHeaderError{})
	o.check()
	f.locked.Add(1)
	o.sessionEnded(f.sid)
	f.locked.Add(-1)
	for _, want := range []string{
		"juicefs: no TLS with the object storage",
		"juicefs: the volume  is not there any more",
		"juicefs: the settings of a volume were not there for a moment",
		"juicefs: other servers have taken this one for dead",
	} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("the default logger got %q, want a line that begins with %q", got, want)
		}
	}
}
