// A file with the current connections, for the next process if this one is killed: see
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

// A connStateFile is one port's connection file. No other process writes to the file, because only
// one process can have the port. A goroutine writes, since event handlers must not wait for a disk.
// If an entry is not written in time, the peer merely waits longer after a crash.
type connStateFile struct {
	path string        // set once
	wake chan struct{} // has a token while there are changes to write
	stop chan struct{} // closed when no more changes will come
	done chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex             // after control.mu
	conns map[*cm.Conn]cm.Former // guarded by mu
}

func newConnStateFile(path string) *connStateFile {
	return &connStateFile{path: path, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), conns: make(map[*cm.Conn]cm.Former)}
}

// recordConns starts recording the port's connections in a directory, and ends connections left
// there by another process. The caller holds mu.
func (c *control) recordConns(at cm.Instant, dir string) {
	if dir == "" || c.state != nil {
		return
	}
	k := newConnStateFile(filepath.Join(dir, fmt.Sprintf("roce-%v-%d.json", c.t.key.Addr(), c.t.key.Port())))
	for _, f := range k.read() {
		if conn := c.cm.EndFormer(at, f); conn != nil {
			k.conns[conn] = f
		}
	}
	k.changed() // invalid entries are dropped
	c.state = k
	go k.loop()
}

// stopRecording writes the final state and ends the goroutine.
func (c *control) stopRecording() {
	c.mu.Lock()
	k := c.state
	c.state = nil
	c.mu.Unlock()
	if k != nil {
		k.end()
	}
}

// end writes remaining changes and waits for the goroutine.
func (k *connStateFile) end() {
	close(k.stop)
	<-k.done
}

// read returns the file's connections, or no connections if the file is missing or invalid. read
// opens without blocking: an attacker might have put a FIFO without a writer there.
func (k *connStateFile) read() (list []cm.Former) {
	f, err := os.OpenFile(k.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxStateFile {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxStateFile))
	if err != nil || json.Unmarshal(b, &list) != nil {
		return nil
	}
	return list[:min(len(list), maxStateConns)]
}

// handleEvent adds a connection when it is established. It removes a connection when that has
// ended: the peer has acknowledged the end, or does not answer. A nil k records nothing.
func (k *connStateFile) handleEvent(e *cm.Event) {
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

func (k *connStateFile) changed() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// loop writes changes. After stop loop only writes pending changes: the socket is closed, so the
// file may belong to another process.
func (k *connStateFile) loop() {
	defer close(k.done)
	for {
		select {
		case <-k.wake:
		case <-k.stop:
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
		case <-k.stop:
		case <-time.After(min(max(statePauseShare*time.Since(begun), minStatePause), maxStatePause)):
		}
	}
}

// write replaces the file atomically; for an empty list it removes the file.
func (k *connStateFile) write(list []cm.Former) {
	if len(list) == 0 {
		_ = os.Remove(k.path)
		return
	}
	b, err := json.Marshal(list[:min(len(list), maxStateConns)])
	if err == nil {
		err = writeNew(k.path+".new", b)
	}
	if err == nil {
		err = os.Rename(k.path+".new", k.path)
	}
	if err != nil { // the old content is outdated
		_ = os.Remove(k.path)
	}
}

// writeNew creates a file and removes any old one first: writing to an old file could follow a
// symbolic link.
func writeNew(path string, b []byte) error {
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
