// Connections kept in a file, for the process that comes after this one if it is killed: see
// Options.State.

package roce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"golang.org/x/sys/unix"
)

// A kept is the file of one port. No other process writes to it: only one can have the port. A
// goroutine writes, since who is told of connections must not wait for a disk; what it has not
// written yet, or cannot, costs the peer some patience and no more.
type kept struct {
	path string        // set once
	wake chan struct{} // one token: there is something to write
	last chan struct{} // closed when there will be nothing more
	done chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex             // after control.mu
	conns map[*cm.Conn]cm.Former // guarded by mu
}

// Between two writes is the time that keptShare of the first one take, from keptPause to keptMost:
// all connections are written each time, and peers can make and end some as often as they like.
const (
	keptShare = 10
	keptPause = 20 * time.Millisecond
	keptMost  = time.Second
)

func newKept(path string) *kept {
	return &kept{path: path, wake: make(chan struct{}, 1), last: make(chan struct{}), done: make(chan struct{}), conns: make(map[*cm.Conn]cm.Former)}
}

// mostKept bounds the connections of a file, and keptSize what is read of one: the text of a
// connection is shorter than 160 bytes.
const (
	mostKept = 1 << 16
	keptSize = 160 * mostKept
)

// keep begins to keep the connections of the port in a directory, and ends those that another
// process has left there. The caller holds mu.
func (c *control) keep(at cm.Instant, dir string) {
	if dir == "" || c.kept != nil {
		return
	}
	k := newKept(filepath.Join(dir, fmt.Sprintf("roce-%v-%d.json", c.t.key.Addr(), c.t.key.Port())))
	for _, f := range k.read() {
		if conn := c.cm.EndFormer(at, f); conn != nil {
			k.conns[conn] = f
		}
	}
	k.changed() // what was none is not kept
	c.kept = k
	go k.loop()
}

// keepNoMore has the file be as the last connections left it, and ends the goroutine.
func (c *control) keepNoMore() {
	c.mu.Lock()
	k := c.kept
	c.kept = nil
	c.mu.Unlock()
	if k != nil {
		k.end()
	}
}

// end writes what is left to write.
func (k *kept) end() {
	close(k.last)
	<-k.done
}

// read is what the file has: nothing, if it is not there or not whole. Who could put something else
// there, such as a FIFO that nobody writes to, has nobody wait for it.
func (k *kept) read() (list []cm.Former) {
	f, err := os.OpenFile(k.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > keptSize {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, keptSize))
	if err != nil || json.Unmarshal(b, &list) != nil {
		return nil
	}
	return list[:min(len(list), mostKept)]
}

// happened takes a connection in when it is established, and out when its peer knows that it has
// ended, or is waited for no longer. A nil k keeps nothing.
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

// loop writes what has changed. At the end it writes nothing that it has written: the socket is
// closed then, and the file may be another's.
func (k *kept) loop() {
	defer close(k.done)
	for {
		select {
		case <-k.wake:
		case <-k.last:
			select {
			case <-k.wake:
			default:
				return
			}
		}
		begun := time.Now()
		k.mu.Lock()
		list := slices.Collect(maps.Values(k.conns))
		k.mu.Unlock()
		k.write(list)
		select {
		case <-k.last:
		case <-time.After(min(max(keptShare*time.Since(begun), keptPause), keptMost)):
		}
	}
}

// write has the file hold a list, whole at any time; there is none of nothing.
func (k *kept) write(list []cm.Former) {
	if len(list) == 0 {
		_ = os.Remove(k.path)
		return
	}
	b, err := json.Marshal(list[:min(len(list), mostKept)])
	if err == nil {
		err = writeNew(k.path+".new", b)
	}
	if err == nil {
		err = os.Rename(k.path+".new", k.path)
	}
	if err != nil { // what it says is no longer so
		_ = os.Remove(k.path)
	}
}

// writeNew makes a file in place of what was there, which is not written to: a symbolic link would
// have that be another file.
func writeNew(path string, b []byte) error {
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
