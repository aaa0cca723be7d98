// Connections kept in a file, for the process that comes after this one if it is killed: see Options.State.

package roce

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
)

// A kept is the file of one port. No other process writes to it: only one can have the port. A goroutine writes, since who is told of
// connections must not wait for a disk; what it has not written yet, or cannot, costs the peer some patience and no more.
type kept struct {
	path string        // set once
	wake chan struct{} // one token: there is something to write, or to end
	done chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex             // after control.mu
	conns map[*cm.Conn]cm.Former // guarded by mu
	ended bool                   // guarded by mu
}

// mostKept bounds what is read of a file.
const mostKept = 1 << 16

// keep begins to keep the connections of the port in a directory, and ends those that another process has left there. The caller
// holds mu.
func (c *control) keep(at cm.Instant, dir string) {
	if dir == "" || c.kept != nil {
		return
	}
	k := &kept{path: filepath.Join(dir, fmt.Sprintf("roce-%v-%d.json", c.t.key.Addr(), c.t.key.Port())),
		wake: make(chan struct{}, 1), done: make(chan struct{}), conns: make(map[*cm.Conn]cm.Former)}
	for _, f := range k.read() {
		if conn := c.cm.EndFormer(at, f); conn != nil {
			k.conns[conn] = f
		}
	}
	c.kept = k
	go k.loop()
}

// keepNoMore has the file be as the last connections left it, and ends the goroutine.
func (c *control) keepNoMore() {
	c.mu.Lock()
	k := c.kept
	c.kept = nil
	c.mu.Unlock()
	if k == nil {
		return
	}
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.changed()
	<-k.done
}

// read is what the file has: nothing, if it is not there or not whole.
func (k *kept) read() (list []cm.Former) {
	b, err := os.ReadFile(k.path)
	if err != nil || json.Unmarshal(b, &list) != nil {
		return nil
	}
	return list[:min(len(list), mostKept)]
}

// happened takes a connection in when it is established, and out when its peer knows that it has ended, or is waited for no longer. A
// nil k keeps nothing.
func (k *kept) happened(e *cm.Event) {
	if k == nil || e.Kind != cm.Established && e.Kind != cm.Ended {
		return
	}
	k.mu.Lock()
	if e.Kind == cm.Established {
		k.conns[e.Conn] = e.Conn.Former()
	} else {
		delete(k.conns, e.Conn)
	}
	k.mu.Unlock()
	k.changed()
}

func (k *kept) changed() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// loop writes what has changed.
func (k *kept) loop() {
	defer close(k.done)
	for range k.wake {
		k.mu.Lock()
		list, ended := slices.Collect(maps.Values(k.conns)), k.ended
		k.mu.Unlock()
		k.write(list)
		if ended {
			return
		}
	}
}

// write has the file hold a list, whole at any time; there is none of nothing.
func (k *kept) write(list []cm.Former) {
	if len(list) == 0 {
		_ = os.Remove(k.path)
		return
	}
	b, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(k.path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(k.path+".new", k.path)
	}
	if err != nil { // what it says is no longer so
		_ = os.Remove(k.path)
	}
}
