// Volumes that are destroyed, or replaced by another, while they are served.

package juicefs

import (
	"runtime"
	"strings"
	"sync"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/sirupsen/logrus"
)

// At each heartbeat JuiceFS looks at the settings of its volume, and where that is not there any more, or is another one, it ends the process.
// A server has other volumes. What JuiceFS logs just before is the only sign of it, so a hook of its log ends that goroutine of JuiceFS, which
// does nothing but these looks, in place of the process, and has all volumes that are open look for themselves.
type goneHook struct{}

// lastWords are how the lines begin that JuiceFS logs before it ends the process.
var lastWords = []string{"reload setting: database is not formatted", "incompatible metadata version", "UUID changed from"}

func (goneHook) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

// Fire does not return after the last words.
func (goneHook) Fire(e *logrus.Entry) error {
	for _, words := range lastWords {
		if strings.HasPrefix(e.Message, words) {
			opened.check()
			runtime.Goexit()
		}
	}
	return nil
}

// openVolumes are the volumes that are open in this process.
type openVolumes struct {
	mu  sync.Mutex
	set map[*FS]bool // guarded by mu
}

var opened = openVolumes{set: map[*FS]bool{}}

func (o *openVolumes) add(f *FS) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set[f] = true
}

func (o *openVolumes) remove(f *FS) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.set, f)
}

// check has those find out that are gone. Nobody closes one meanwhile.
func (o *openVolumes) check() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for f := range o.set {
		f.lookForItself()
	}
}

// lookForItself marks a volume that is not there any more: its Refs are stale from now on. A metadata service that does not answer says nothing.
func (f *FS) lookForItself() {
	format, err := f.m.Load(false)
	switch {
	case err != nil && !strings.HasPrefix(err.Error(), "database is not formatted"):
		return
	case err == nil && format.UUID == f.uuid && format.MetaVersion <= meta.MaxVersion:
		return
	}
	if !f.gone.Swap(true) {
		logrus.Errorf("juicefs: the volume %s is not there any more, or another one is in its place: all of its file handles are stale", f.uuid)
	}
}
