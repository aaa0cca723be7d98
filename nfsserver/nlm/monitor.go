// What is on stable storage: the number of this start, and the clients to be told of the next.

package nlm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// A monitor knows which clients have locks, or had some in an earlier run.
type monitor struct {
	// Set once.
	path string   // "": nothing is kept
	held *os.File // has the lock by which no other process uses the file; nil: none

	mu      sync.Mutex // guards all below, and the file
	state   int32      // odd, and larger with each start
	watched map[hostKey]bool
	earlier map[hostKey]bool // of the last run, until grace is over and they have been told
	told    bool             // they have been, or it has been tried for long enough
}

// record is the file.
type record struct {
	State   int32
	Clients []client
}

// A client is a hostKey as it is kept. Its name need not be text.
type client struct {
	Addr netip.Addr
	UID  int64
	Name []byte
}

// load reads what the last run has left, and begins this one.
func (m *monitor) load(dir string) error {
	m.watched, m.earlier = map[hostKey]bool{}, map[hostKey]bool{}
	// Seconds grow like the number of starts, should what is kept be lost.
	m.state = int32(time.Now().Unix()&math.MaxInt32) | 1
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("clients with locks: %w: make it a directory of this user", err)
	}
	switch err := m.hold(filepath.Join(dir, "locks.lock")); {
	case errors.Is(err, unix.EWOULDBLOCK):
		// Its clients are none of ours: told of a restart they would give up their locks there.
		logrus.Warnf("%s is another server's: clients are not told of a restart of this one, and lose their locks with it: name another --state-dir", dir)
		return nil
	case err != nil:
		return fmt.Errorf("clients with locks: %w", err)
	}
	m.path = filepath.Join(dir, "locks.json")
	b, err := os.ReadFile(m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clients with locks: %w", err)
	}
	if err == nil {
		var r record
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("clients with locks: %s: %w: remove it, and clients do not reclaim their locks", m.path, err)
		}
		if r.State < math.MaxInt32-2 {
			m.state = (r.State + 2) | 1
		}
		for _, c := range r.Clients {
			m.earlier[hostKey{c.Addr, c.UID, string(c.Name)}] = true
		}
	}
	return m.save()
}

// hold takes the lock of the state directory, which ends with the process at the latest.
func (m *monitor) hold(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return err
	}
	m.held = f
	return nil
}

// close lets another process use the file.
func (m *monitor) close() {
	if m.held != nil {
		m.held.Close()
	}
}

// save writes the file. mu is held, or nobody else is there yet.
func (m *monitor) save() error {
	if m.path == "" {
		return nil
	}
	r := record{State: m.state}
	for _, set := range []map[hostKey]bool{m.watched, m.earlier} {
		for k := range set {
			r.Clients = append(r.Clients, client{k.addr, k.uid, []byte(k.name)})
		}
	}
	b, err := json.Marshal(&r)
	if err == nil {
		err = renameio.WriteFile(m.path, b, 0o600)
	}
	if err == nil {
		err = syncDir(filepath.Dir(m.path))
	}
	return err
}

// syncDir brings a new name of a file to stable storage.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// watch has a client told of the next start. It returns once that is on stable storage.
func (m *monitor) watch(k hostKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched[k] {
		return nil
	}
	m.watched[k] = true
	err := m.save()
	if err != nil {
		delete(m.watched, k)
	}
	return err
}

// retain forgets the clients that are not in left; with graceOver those of the last run, too, once they have been told.
func (m *monitor) retain(left map[hostKey]bool, graceOver bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for k := range m.watched {
		if !left[k] {
			delete(m.watched, k)
			changed = true
		}
	}
	if graceOver && m.told && len(m.earlier) > 0 {
		clear(m.earlier)
		changed = true
	}
	if !changed {
		return nil
	}
	return m.save()
}

// mayReclaim reports whether a client had locks in the last run.
func (m *monitor) mayReclaim(k hostKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.earlier[k]
}

// lost returns the clients of the last run.
func (m *monitor) lost() (list []hostKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.earlier {
		list = append(list, k)
	}
	return list
}

// allTold notes that the clients of the last run need not be told any more.
func (m *monitor) allTold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = true
}

// number is that of this start.
func (m *monitor) number() int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}
