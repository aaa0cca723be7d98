// Calls of JuiceFS: their user, the meaning of errors, and protection against its exits.

package juicefs

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/redis/go-redis/v9"
	"github.com/sirupsen/logrus"
)

// An actor is the meta.Context of a call. JuiceFS checks no permission for it, and new objects get
// its user and group.
type actor struct {
	context.Context
	uid uint32
	gid [1]uint32
}

// system is the actor for calls that make no object.
var system meta.Context = &actor{Context: context.Background()}

func as(uid, gid uint32) meta.Context {
	return &actor{Context: context.Background(), uid: uid, gid: [1]uint32{gid}}
}

func (a *actor) Uid() uint32    { return a.uid }
func (a *actor) Gid() uint32    { return a.gid[0] }
func (a *actor) Gids() []uint32 { return a.gid[:] }
func (a *actor) Pid() uint32    { return 0 }
func (a *actor) Cancel()        {}
func (a *actor) Canceled() bool { return false }

// CheckPermission returns false: the rights have been checked.
func (a *actor) CheckPermission() bool { return false }

// WithValue returns a copy with the value.
func (a *actor) WithValue(k, v any) meta.Context {
	b := *a
	b.Context = context.WithValue(a.Context, k, v)
	return &b
}

// failed converts an error of the metadata service where ENOENT is a result. JuiceFS reports EIO or
// ETIMEDOUT when the service is unreachable, restarting or overloaded. The object is fine, and
// clients must retry. The change may have been executed, as with any lost reply.
func failed(no syscall.Errno) error {
	switch no {
	case 0:
		return nil
	case syscall.EIO, syscall.ETIMEDOUT:
		return nfsserver.ErrBusy
	}
	return no
}

// refused reports whether a change was certainly not executed.
func refused(no syscall.Errno) bool { return no != 0 && no != syscall.EIO && no != syscall.ETIMEDOUT }

// failedOn is failed for a call on an object, where ENOENT means that the object is gone.
func failedOn(no syscall.Errno) error {
	if no == syscall.ENOENT {
		return nfsserver.ErrStale
	}
	return failed(no)
}

// failedData converts an error of a reader or a writer.
func failedData(no syscall.Errno) error {
	switch no {
	case 0:
		return nil
	case syscall.ENOENT:
		return nfsserver.ErrStale
	}
	return no
}

// A fatal is an error for which JuiceFS would exit.
type fatal struct{ why string }

// A fatalHook keeps the last message of that level.
type fatalHook struct {
	mu  sync.Mutex
	why string
}

func (h *fatalHook) Levels() []logrus.Level { return []logrus.Level{logrus.FatalLevel} }

func (h *fatalHook) Fire(e *logrus.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = e.Message
	return nil
}

// A redisLog routes messages of Redis's client, which would write to standard error, to JuiceFS's
// log.
type redisLog struct {
	log interface{ Warnf(string, ...any) }
}

func (r redisLog) Printf(_ context.Context, format string, v ...any) {
	r.log.Warnf("redis: "+strings.TrimPrefix(format, "redis: "), v...)
}

// tameLogs makes JuiceFS and its libraries log only warnings and errors, and panic with a fatal
// instead of calling os.Exit.
var tameLogs = sync.OnceFunc(func() {
	log := utils.GetLogger("juicefs")
	utils.GetLogger("badger")
	utils.SetLogLevel(logrus.WarnLevel) // of existing loggers
	hook := new(fatalHook)
	log.AddHook(passwordHook{}) // before the hook that keeps a message
	log.AddHook(hook)
	log.AddHook(goneHook{})
	log.AddHook(staleHook{})
	log.SetOutput(&limited{to: os.Stderr})
	redis.SetLogger(redisLog{log})
	log.ExitFunc = func(int) {
		hook.mu.Lock()
		defer hook.mu.Unlock()
		panic(fatal{hook.why})
	}
})

// A limited passes some lines in each period and logs the number of dropped ones. Clients can cause
// lines, for instance by removing a file that is being written.
type limited struct {
	to io.Writer

	mu            sync.Mutex // guards the rest
	began         time.Time
	lines, missed int
}

const (
	logPeriod = 10 * time.Second
	logLines  = 10
)

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) > logPeriod {
		if l.missed > 0 {
			fmt.Fprintf(l.to, "juicefs: lines that were not logged: %d\n", l.missed)
		}
		l.began, l.lines, l.missed = now, 0, 0
	}
	if l.lines++; l.lines > logLines {
		l.missed++
		return len(b), nil
	}
	return l.to.Write(b)
}

// connect opens the metadata service. meta.NewClient exits instead of returning an error.
func connect(url string, conf *meta.Config) (m meta.Meta, err error) {
	tameLogs()
	passwords.add(url)
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(fatal)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("juicefs: %s", f.why)
		}
	}()
	return meta.NewClient(url, conf), nil
}
