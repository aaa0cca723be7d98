// How JuiceFS is called: as whom, what its errors mean, and how it is kept from ending the process.

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

// An actor is the meta.Context of a call. JuiceFS checks nothing of it, and makes what it makes as its user and group.
type actor struct {
	context.Context
	uid uint32
	gid [1]uint32
}

// system is who calls JuiceFS where nothing is made.
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

// CheckPermission is false: the rights have been checked.
func (a *actor) CheckPermission() bool { return false }

// WithValue returns a copy with the value.
func (a *actor) WithValue(k, v any) meta.Context {
	b := *a
	b.Context = context.WithValue(a.Context, k, v)
	return &b
}

// failed is the error of a call of the metadata service, where ENOENT is an answer. What JuiceFS knows no other error for, EIO, or
// ETIMEDOUT, is that the service is away, restarts or has not the time: nothing is wrong with the object, and clients are to ask
// again. What they asked for has possibly been done, as with any answer that is lost.
func failed(no syscall.Errno) error {
	switch no {
	case 0:
		return nil
	case syscall.EIO, syscall.ETIMEDOUT:
		return nfsserver.ErrBusy
	}
	return no
}

// refused reports whether a change has certainly not been done.
func refused(no syscall.Errno) bool { return no != 0 && no != syscall.EIO && no != syscall.ETIMEDOUT }

// failedOn is that of a call on an object, where ENOENT says that the object has gone.
func failedOn(no syscall.Errno) error {
	if no == syscall.ENOENT {
		return nfsserver.ErrStale
	}
	return failed(no)
}

// failedData is the error of bytes that a reader or a writer has not got, or not stored.
func failedData(no syscall.Errno) error {
	switch no {
	case 0:
		return nil
	case syscall.ENOENT:
		return nfsserver.ErrStale
	}
	return no
}

// A fatal is what JuiceFS would end the process with.
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

// A redisLog has Redis's client, which writes to standard error by itself, log as JuiceFS does.
type redisLog struct {
	log interface{ Warnf(string, ...any) }
}

func (r redisLog) Printf(_ context.Context, format string, v ...any) {
	r.log.Warnf("redis: "+strings.TrimPrefix(format, "redis: "), v...)
}

// tameLogs has JuiceFS and what it calls log warnings and errors only, and panic with a fatal where it would call os.Exit.
var tameLogs = sync.OnceFunc(func() {
	log := utils.GetLogger("juicefs")
	utils.GetLogger("badger")
	utils.SetLogLevel(logrus.WarnLevel) // of those that there are
	hook := new(fatalHook)
	log.AddHook(passwordHook{}) // before the one that keeps a message
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

// A limited passes some lines in each period, and says how many it has dropped: clients cause some of them, as
// by removing a file that is being written.
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

// connect opens the metadata service. meta.NewClient returns no error but exits.
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
