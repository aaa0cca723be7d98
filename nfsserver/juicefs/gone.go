// Volumes that are destroyed, or replaced by another, while they are served.

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

// At each heartbeat JuiceFS looks at the settings of its volume. Where the metadata service does not answer it looks again at the next one; where
// the settings are not there any more, or are those of another volume, it ends the process.
// A server has other volumes. What JuiceFS logs just before is the only sign of it, so a hook of its log ends that goroutine of JuiceFS
// in place of the process, and has all volumes that are open look for themselves until each has an answer.
//
// With that goroutine a session's heartbeat ends for good. Nobody needs that of a volume that is gone. But where the settings were missing only for a
// moment, as while another instance takes the service over, the volume would be served on by a session that other servers take for dead after
// five heartbeats: they would free its locks. JuiceFS starts that goroutine once in a session, nor does the hook learn whose it was; but where
// more have ended than volumes are gone this process has to end, as JuiceFS wanted it, and to be started again: its unit does so.
type goneHook struct{}

// lastWords are how the lines begin that JuiceFS logs before it ends the process.
var lastWords = []string{"reload setting: database is not formatted", "incompatible metadata version", "UUID changed from"}

func (goneHook) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

// Fire does not return after the last words.
func (goneHook) Fire(e *logrus.Entry) error {
	for _, words := range lastWords {
		if strings.HasPrefix(e.Message, words) {
			opened.heartbeatEnds()
			runtime.Goexit()
		}
	}
	return nil
}

// waitToLook is between two looks for volumes whose metadata service has not answered, and endProcess ends the process as one that has failed. Tests
// have others.
var (
	waitToLook = func() { time.Sleep(time.Second) }
	endProcess = func() { os.Exit(1) }
)

// openVolumes are the volumes that are open in this process.
type openVolumes struct {
	mu    sync.Mutex
	set   map[*FS]bool // guarded by mu
	ended int          // heartbeats that have ended so, guarded by mu
	gone  int          // volumes that are gone, those that have been closed since included; guarded by mu
}

var opened = openVolumes{set: map[*FS]bool{}}

func (o *openVolumes) add(f *FS) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set[f] = true
}

// remove returns when nobody looks whether the volume is there.
func (o *openVolumes) remove(f *FS) {
	o.mu.Lock()
	delete(o.set, f)
	o.mu.Unlock()
	f.looks.Wait()
}

// heartbeatEnds finds out which volumes are gone, in the goroutine of a heartbeat that ends.
func (o *openVolumes) heartbeatEnds() {
	o.mu.Lock()
	o.ended++
	o.mu.Unlock()
	for o.check() > 0 {
		waitToLook()
	}
}

// A look is what a volume has found out about itself.
type look struct{ there, answered bool }

// look has all volumes find out whether they are gone. A metadata service that does not answer
// holds up nobody but who closes its own volume. ended is how many heartbeats had ended before: of
// one that ends meanwhile the volume may have been looked at too early.
func (o *openVolumes) look() (found map[*FS]*look, ended int) {
	found = map[*FS]*look{}
	o.mu.Lock()
	for f := range o.set {
		f.looks.Add(1) // before remove waits, which takes f out of the set first
		found[f] = new(look)
	}
	ended = o.ended
	o.mu.Unlock()
	var all sync.WaitGroup
	for f, l := range found {
		all.Go(func() {
			defer f.looks.Done()
			l.there, l.answered = f.lookForItself()
		})
	}
	all.Wait()
	return found, ended
}

// check has volumes find out whether they are gone, and returns of how many that is not known.
func (o *openVolumes) check() (unknown int) {
	found, ended := o.look()
	o.mu.Lock()
	defer o.mu.Unlock()
	there := 0
	var log *slog.Logger // of a volume that is there
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

// lookForItself reports whether a volume is still there; one that is gone is so for good: its Refs are stale. A metadata service that does not
// answer says nothing. One in Badger is not asked: nobody else can have taken it away.
func (f *FS) lookForItself() (there, answered bool) {
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

// lookRetries is how often the service is asked again in a look. There is another look a second later.
const lookRetries = 1

// settingsOf asks for the settings of the volume that is there, by a client of its own: JuiceFS's
// keeps what it is told as those of its volume, so that of one which was replaced it would not find
// that any more, and its heartbeat would not end. (And it reads them without a lock.)
func settingsOf(url string, conf *meta.Config) (*meta.Format, error) {
	its := *conf
	its.Retries = lookRetries
	m, err := connect(url, &its)
	if err != nil {
		return nil, err
	}
	defer m.Shutdown() // it has told all that it knows
	return m.Load(false)
}
