// State on stable storage: this start's number, and the clients to notify at the next start.

package nlm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// A monitor records the clients with locks in this run, and in the last one.
type monitor struct {
	// Set once.
	sync func(dir string) error // brings the file's name to stable storage; nil: syncDir
	log  *slog.Logger           // nil: slog.Default()

	mu       sync.Mutex // guards all below, and the file
	dir      string     // for the state; "": nothing is stored
	path     string     // of the file; "": the directory is not usable yet
	held     *os.File   // locks the file against other processes; nil: none
	state    int32      // the server's NSM state number: odd, and larger with each start
	watched  map[hostKey]bool
	earlier  map[hostKey]bool // clients of the last run, until grace ends and they are notified
	notified bool             // the earlier clients are notified, or the time for that is over
}

// record is the file's content.
type record struct {
	State   int32
	Clients []client
}

// A client is a stored hostKey. The name can have bytes that are not text.
type client struct {
	Addr netip.Addr
	UID  int64
	Name []byte
}

// ErrInUse reports a state directory in use by another server. Each server would notify the other's
// clients of a restart, and those clients would give up their locks.
var ErrInUse = errors.New("another server uses this state directory")

// load reads the last run's record and begins this run. It fails if another server uses the
// directory. After another storage error it logs and continues: each new client then retries
// storing, and gets no lock until the record is stored.
func (m *monitor) load(dir string) error {
	m.watched, m.earlier = map[hostKey]bool{}, map[hostKey]bool{}
	// Seconds grow faster than restarts, so the number also grows if the record is lost.
	m.state = int32(time.Now().Unix()&math.MaxInt32) | 1
	m.dir = dir
	if m.log == nil {
		m.log = slog.Default()
	}
	if m.sync == nil {
		m.sync = syncDir
	}
	err := m.save()
	if err != nil && !errors.Is(err, ErrInUse) {
		m.log.Error(fmt.Sprintf("no client gets locks until the clients with locks can be kept: %v", err))
		return nil
	}
	return err
}

// begin takes the state directory, unless another server uses it. The last run's clients stay in
// the record until they are notified.
func (m *monitor) begin() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("clients with locks: %w: make it a directory of this user", err)
	}
	if err := m.lockDir(filepath.Join(m.dir, "locks.lock")); err != nil {
		return fmt.Errorf("clients with locks: %s: %w", m.dir, err)
	}
	path := filepath.Join(m.dir, "locks.json")
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return errors.Join(fmt.Errorf("clients with locks: %w", err), m.close())
	default:
		var r record
		if err := json.Unmarshal(b, &r); err != nil {
			m.log.Error(fmt.Sprintf("%s is damaged, so clients of the last run are not notified to reclaim their locks: %v", path, err))
			_ = os.Rename(path, path+".damaged") // kept for inspection
		}
		if r.State > 0 {
			m.state = (r.State+2)&math.MaxInt32 | 1
		}
		for _, c := range r.Clients {
			m.earlier[hostKey{c.Addr, c.UID, string(c.Name)}] = true
		}
	}
	m.path, m.notified = path, false
	return nil
}

// lockDir locks the state directory, until close or the end of the process.
func (m *monitor) lockDir(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil { // without storing, clients of the last run can still be notified
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return ErrInUse
		}
		return err
	}
	m.held = f
	return nil
}

// close lets another process use the file.
func (m *monitor) close() error {
	if m.held == nil {
		return nil
	}
	return m.held.Close()
}

// save writes the record, once the directory is usable. mu is held, or m is not shared yet.
func (m *monitor) save() error {
	if m.path == "" && m.dir != "" {
		if err := m.begin(); err != nil {
			return err
		}
	}
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
		err = m.sync(m.dir)
	}
	return err
}

// syncDir brings a file's new name to stable storage.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// watch records a client to notify at the next start. It returns once the record is on stable
// storage.
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

// retain forgets the clients missing from left. With graceOver, and after their notification, it
// also forgets the last run's clients. It calls left under mu. A client enters the ledger before
// watch, so a watched client missing from left has no locks any more.
func (m *monitor) retain(left func() map[hostKey]bool, graceOver bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed, have := false, left()
	for k := range m.watched {
		if !have[k] {
			delete(m.watched, k)
			changed = true
		}
	}
	if graceOver && m.notified && len(m.earlier) > 0 {
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

// lost returns the last run's clients.
func (m *monitor) lost() (list []hostKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.earlier {
		list = append(list, k)
	}
	return list
}

// noticesEnded records that notices to the last run's clients have ended.
func (m *monitor) noticesEnded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notified = true
}

// number returns the server's current state number.
func (m *monitor) number() int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}
