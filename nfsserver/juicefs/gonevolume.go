// Volumes destroyed, or replaced by another, while they are served.

package juicefs

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/sirupsen/logrus"
)

// At each heartbeat JuiceFS reads its volume's settings. If the metadata service does not answer it
// retries at the next heartbeat. If the settings are missing, or are another volume's, it ends the
// process. But a server has other volumes. The only sign is the log line just before, so a hook of
// JuiceFS's log ends the heartbeat goroutine instead of the process. The hook then makes all open
// volumes check themselves until each has an answer.
//
// The session's heartbeat has then ended permanently. A destroyed volume does not need it. But the
// settings may be missing only for a moment, for instance while another instance takes over the
// service. Then other servers would consider the session dead after five heartbeats, and free its
// locks. JuiceFS starts the goroutine only once in a session, and the hook does not learn its
// volume. So if more heartbeats have ended than volumes are gone, this process must end, as JuiceFS
// intended, and its unit restarts it.
type goneHook struct{}

// lastWords are the beginnings of the lines that JuiceFS logs before it ends the process.
var lastWords = []string{"reload setting: database is not formatted", "incompatible metadata version", "UUID changed from"}

func (goneHook) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

// Fire does not return after one of lastWords.
func (goneHook) Fire(e *logrus.Entry) error {
	for _, words := range lastWords {
		if strings.HasPrefix(e.Message, words) {
			opened.heartbeatEnds()
			runtime.Goexit()
		}
	}
	return nil
}

// waitToLook is the pause between two checks while a metadata service does not answer. endProcess
// ends the process with a failure. Tests replace both.
var (
	waitToLook = func() { time.Sleep(time.Second) }
	endProcess = func() { os.Exit(1) }
)

// openVolumes are this process's open volumes.
type openVolumes struct {
	mu    sync.Mutex
	set   map[*FS]bool // guarded by mu
	ended int          // ended heartbeats; guarded by mu
	gone  int          // volumes that are gone, including closed ones; guarded by mu
}

var opened = openVolumes{set: map[*FS]bool{}}

func (o *openVolumes) add(f *FS) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set[f] = true
}

// remove returns once no check of the volume is running.
func (o *openVolumes) remove(f *FS) {
	o.mu.Lock()
	delete(o.set, f)
	o.mu.Unlock()
	f.looks.Wait()
}

// heartbeatEnds checks which volumes are gone. It runs in the goroutine of the ended heartbeat.
func (o *openVolumes) heartbeatEnds() {
	o.mu.Lock()
	o.ended++
	o.mu.Unlock()
	for o.check() > 0 {
		waitToLook()
	}
}

// A look is the result of a volume's check.
type look struct{ there, answered bool }

// look checks all volumes. An unresponsive metadata service delays only the close of its own
// volume. ended is the number of heartbeats ended before: if another one ends meanwhile its volume
// may have been checked too early.
func (o *openVolumes) look() (found map[*FS]*look, ended int) {
	found = map[*FS]*look{}
	o.mu.Lock()
	for f := range o.set {
		f.looks.Add(1) // before remove waits, because remove deletes f from the set first
		found[f] = new(look)
	}
	ended = o.ended
	o.mu.Unlock()
	var all sync.WaitGroup
	for f, l := range found {
		all.Go(func() {
			defer f.looks.Done()
			l.there, l.answered = f.exists()
		})
	}
	all.Wait()
	return found, ended
}

// check checks all volumes, and returns the number without an answer.
func (o *openVolumes) check() (unknown int) {
	found, ended := o.look()
	o.mu.Lock()
	defer o.mu.Unlock()
	there := 0
	var log *slog.Logger // from a volume that exists
	for f, l := range found {
		switch {
		case !l.answered && o.set[f]:
			unknown++
		case l.there && o.set[f]:
			there++
			log = f.log
		case l.answered && !l.there && !f.gone.Swap(true):
			o.gone++
			cmp.Or(f.log, slog.Default()).Error(fmt.Sprintf("juicefs: the volume %s is not there any more, or another one is in its place: all of its file handles are stale", f.uuid))
		}
	}
	if there > 0 && ended > o.gone+unknown {
		cmp.Or(log, slog.Default()).Error("juicefs: the settings of a volume were not there for a moment, and its heartbeat has ended: the server ends, to be started again")
		endProcess()
	}
	return unknown
}

// exists reports whether a volume still exists. A volume that is gone stays gone: its Refs
// are stale. An unresponsive metadata service leaves the question open. A volume in Badger is not
// checked: no other process can have removed it.
func (f *FS) exists() (there, answered bool) {
	if f.sole {
		return true, true
	}
	if f.gone.Load() {
		return false, true
	}
	format, err := f.settings()
	if err != nil && !strings.HasPrefix(err.Error(), "database is not formatted") {
		return false, false
	}
	return err == nil && format.UUID == f.uuid && format.MetaVersion <= meta.MaxVersion, true
}

// lookRetries is the number of retries in one check. The next check follows a second later.
const lookRetries = 1

// settingsOf reads the settings of the volume that exists now, with a client of its own. JuiceFS's
// client would take another volume's settings for its own, so its heartbeat would no longer notice
// the replacement. (It also reads them without a lock.)
func settingsOf(url string, conf *meta.Config) (*meta.Format, error) {
	its := *conf
	its.Retries = lookRetries
	m, err := connect(url, &its)
	if err != nil {
		return nil, err
	}
	defer m.Shutdown() // the Load below has its result
	return m.Load(false)
}
