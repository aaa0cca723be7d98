// The log of locks that are lost: whose they were, and how many; nothing where there were none.

package nlm

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/sirupsen/logrus"
)

// A lostLog keeps the lines about lost locks.
type lostLog struct {
	mu    sync.Mutex
	lines []logrus.Fields // guarded by mu
}

func (*lostLog) Levels() []logrus.Level { return logrus.AllLevels }

func (l *lostLog) Fire(e *logrus.Entry) error {
	if e.Message == "locks lost: their client has started again" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, e.Data)
	}
	return nil
}

func TestLogOfLostLocks(t *testing.T) {
	l := &lostLog{}
	old := logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	logrus.AddHook(l)
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(old) })
	r := plainRig(t)
	r.newFile("f", 0o666)
	p := r.tcp("client", rootCred)
	fh := p.file("/disk", "f")
	for _, off := range []uint64{0, 20} {
		p.want("LOCK", p.lock(fh, 1, off, 10, true), nlm4.Granted)
	}
	home := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 700)
	r.locks.restarted(home, &nsm.StatChange{Name: []byte("client"), State: 5})
	r.locks.restarted(home, &nsm.StatChange{Name: []byte("client"), State: 7}) // of what there is no more
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) != 1 || l.lines[0]["client"] != "client" || l.lines[0]["locks"] != 2 || l.lines[0]["peer"] != home.Addr() {
		t.Errorf("%v", l.lines)
	}
}
