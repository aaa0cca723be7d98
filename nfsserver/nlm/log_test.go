// Log lines about lost locks have their owner and number. Without losses there are none.

package nlm

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// A lostLog keeps the lines about lost locks.
type lostLog struct {
	mu    sync.Mutex
	lines []map[string]any // the lines, guarded by mu
}

func (l *lostLog) take(e machine.LogLine) {
	if e.Message == "locks lost: their client has started again" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, e.Fields)
	}
}

func TestLogOfLostLocks(t *testing.T) {
	l := &lostLog{}
	machine.CaptureLog(t, l.take)
	r := plainRig(t)
	r.newFile("f", 0o666)
	p := r.tcp("client", rootCred)
	fh := p.file("/disk", "f")
	for _, off := range []uint64{0, 20} {
		p.want("LOCK", p.lock(fh, 1, off, 10, true), nlm4.Granted)
	}
	home := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 700)
	r.locks.restarted(home, &nsm.StatChange{Name: []byte("client"), State: 5})
	// a second restart finds no locks to free
	r.locks.restarted(home, &nsm.StatChange{Name: []byte("client"), State: 7})
	l.mu.Lock()
	defer l.mu.Unlock()
	must.Equal(t, "number of lines", len(l.lines), 1)
	for key, want := range map[string]any{"client": "client", "locks": int64(2), "peer": home.Addr()} {
		must.Equal(t, key, l.lines[0][key], want)
	}
}

// A textLog counts the lines about recorded clients, by their text.
type textLog struct {
	mu    sync.Mutex
	texts map[string]int // number of lines by text, guarded by mu
}

func (l *textLog) take(e machine.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(e.Message, "kept") || strings.Contains(e.Message, "no locks") {
		l.texts[e.Message]++
	}
}

// TestLogOfLocksThatCannotBeKept: when clients are refused, all lines have one text, at most one a
// second. The error contains a file name that differs each time.
func TestLogOfLocksThatCannotBeKept(t *testing.T) {
	l := &textLog{texts: map[string]int{}}
	machine.CaptureLog(t, l.take)
	state := t.TempDir()
	r := newRig(t, Options{StateDir: state}, believeAll, false, nil)
	r.newFile("f", 0o666)
	inTheWay := filepath.Join(state, "locks.json")
	if err := os.Remove(inTheWay); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	for i := range 20 {
		p := r.tcp(fmt.Sprint("client", i), rootCred)
		got := p.lockArgs(&nlm4.LockArgs{Lock: p.about(p.file("/disk", "f"), 1, 0, 1)})
		p.want("LOCK", got, nlm4.DeniedNoLocks)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.texts) != 1 {
		t.Errorf("the log has lines of %d texts, want of one: %q", len(l.texts), slices.Collect(maps.Keys(l.texts)))
	}
}
