// Crashes of this machine: servers keep its locks until they are notified.
//
// After a crash of only the mount's process, the next mount reads the owners from the journal
// (journal.go). After a machine crash the owners are unknown, because writing each owner to stable
// storage before its first lock would cost more than the lock. Instead there is one file for each
// server that may have locks of this machine, with the boot that made it. A mount that finds a file
// of an earlier boot makes the server free all this machine's locks (SM_NOTIFY, as the status
// monitor does for the kernel's mounts). It must do so before any lock of this boot, because the
// server would free that lock too. So each mount with locks has a shared lock on the file, and a
// notifying mount has an exclusive lock. The last mount removes the file.
//
// Files are named by address, and a server may have several addresses. A notice to one address
// frees locks taken through another. So the first mount after a crash notifies all servers of
// earlier boots before it takes a lock. While a mount has locks no more notices go out. A mount
// that handles these files holds another file in the directory, the gate.

package nlm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A record is the content of a server's file, in JSON lines: one from the mount that made the file,
// and one with the network for each further mount. While there may be locks, lines are only added,
// so that a crash loses no earlier line.
type record struct {
	Name  string `json:",omitempty"` // this machine's name for the server
	Boot  string `json:",omitempty"` // the boot that may have taken locks
	State int32  `json:",omitempty"` // of the last SM_NOTIFY: odd, and larger each time
	// Nets are the networks of the mounts: servers know this machine by another address in each.
	Nets []string
}

const (
	notifyMost   = 15 * time.Second // bounds the notice to one server
	notifyOthers = 10 * time.Second // for all other servers' notices; the first lock waits for them
	notifyAtOnce = 64               // concurrent notices
	recordPolls  = 5                // polls of an earlier boot's file that another mount holds
	maxRecord    = 1 << 20          // bytes of a file: about 30 for each network
)

// Before the first lock, monitor records the server for the notice after the machine's next crash,
// and sends the notice of the last crash. With first set the mount has no locks yet, and monitor
// acts only if there are files. monitor returns only errors of ctx and stop.
func (l *Locks) monitor(ctx context.Context, stop <-chan struct{}, first bool) error {
	if l.opt.Stable == nil {
		return nil
	}
	peer := l.opt.Stable.Peer()
	if l.isMonitored(peer) {
		return nil
	}
	done := make(chan struct{})
	l.work.Go(func() {
		defer close(done)
		l.recording <- struct{}{}
		defer func() { <-l.recording }()
		l.openRecord(peer, !first)
	})
	select {
	case <-done:
		return nil
	case <-stop:
		return errInterrupted
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isMonitored reports whether the records for a server are complete.
func (l *Locks) isMonitored(peer string) bool {
	last := l.monitored.Load()
	return last != nil && *last == peer
}

// openRecord locks a server's file for the mount; without create only an existing file. Files of
// previous servers stay locked, because those servers may have locks.
func (l *Locks) openRecord(peer string, create bool) {
	name := filepath.Join(l.opt.Stable.Dir, recordName+peer)
	if l.isMonitored(peer) || slices.ContainsFunc(l.records, func(f *os.File) bool { return f.Name() == name }) {
		l.monitored.Store(&peer)
		return
	}
	gate, err := l.lockGate(create)
	if err == nil && gate == nil {
		return
	}
	var file *os.File
	if err == nil {
		defer gate.Close()
		if file, err = l.lockServerRecord(peer, create, l.notifyEarlier(peer)); err == nil {
			if err = l.enterNet(file); err != nil {
				file.Close()
			}
		}
	}
	switch {
	case err == nil:
		l.records = append(l.records, file)
	case !create && errors.Is(err, fs.ErrNotExist) || l.ctx.Err() != nil:
		return
	default: // each later attempt would fail too
		l.log(fmt.Sprintf("locks would outlive a crash of this machine: %v", err))
	}
	l.monitored.Store(&peer)
}

// recordName is the prefix of the servers' files. The mount that handles them holds gateName.
const (
	recordName = "server-"
	gateName   = "gate"
)

// records returns the files of all servers.
func (o *Stable) records() (paths []string) {
	list, _ := os.ReadDir(o.Dir) // an unreadable directory has no files
	for _, e := range list {
		if strings.HasPrefix(e.Name(), recordName) {
			paths = append(paths, filepath.Join(o.Dir, e.Name()))
		}
	}
	return paths
}

// lockGate locks the gate for this mount and returns it. It returns nil without create if there are
// no files.
func (l *Locks) lockGate(create bool) (*os.File, error) {
	o := l.opt.Stable
	if !create && len(o.records()) == 0 {
		return nil, nil
	}
	for {
		gate, err := lockRecord(filepath.Join(o.Dir, gateName), true, unix.LOCK_EX)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return gate, err
		}
		if err := l.pause(l.ctx, pollMost/10); err != nil {
			return nil, err
		}
	}
}

// notifyEarlier notifies the servers with files of earlier boots, concurrently. It skips the
// mount's own server: renew handles that file. It reports whether the own server may be notified,
// because no other mount has a lock through any address. It removes the files of notified servers.
// The caller holds the gate.
func (l *Locks) notifyEarlier(peer string) bool {
	o := l.opt.Stable
	var earlier []*os.File
	alone := true
	for _, path := range o.records() {
		file, err := lockRecord(path, false, unix.LOCK_EX)
		if errors.Is(err, unix.EWOULDBLOCK) && l.sharesNet(path) {
			alone = false
		}
		if err != nil {
			continue
		}
		defer file.Close()
		r, err := readRecord(file)
		// In another network an address means another server, and this machine is another client.
		if err == nil && r.Boot != o.Boot && filepath.Base(path) != recordName+peer && slices.Contains(r.Nets, o.Net) {
			earlier = append(earlier, file)
		}
	}
	if !alone || l.notifiedOthers {
		return alone
	}
	l.notifiedOthers = true // at most once for each mount: silent servers delay its locks
	l.notifyAll(earlier)
	return true
}

// notifyAll notifies the servers of exclusively held files, many at once, for at most notifyOthers.
// The order is random: otherwise silent servers could always come first and use up all slots.
func (l *Locks) notifyAll(files []*os.File) {
	rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	ctx, cancel := context.WithTimeout(l.ctx, notifyOthers)
	defer cancel()
	var all sync.WaitGroup
	room := make(chan struct{}, notifyAtOnce)
	for _, file := range files {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			r, err := readRecord(file)
			if err == nil && (r.Boot == "" || l.notifyServer(ctx, strings.TrimPrefix(filepath.Base(file.Name()), recordName), &r)) {
				_ = os.Remove(file.Name()) // a file that stays is retried when no mount has locks
			}
		})
	}
	all.Wait()
}

// sharesNet reports whether the mounts with a file may be in this mount's network.
func (l *Locks) sharesNet(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	r, err := readRecord(file)
	return err != nil || len(r.Nets) == 0 || slices.Contains(r.Nets, l.opt.Stable.Net)
}

// enterNet adds this mount's network to a held file. The caller holds the gate.
func (l *Locks) enterNet(file *os.File) error {
	r, err := readRecord(file)
	if err != nil || r.Boot == "" || slices.Contains(r.Nets, l.opt.Stable.Net) {
		return err
	}
	return addToRecord(file, &record{Nets: []string{l.opt.Stable.Net}})
}

// notifyServer notifies a server, and reports success.
func (l *Locks) notifyServer(ctx context.Context, peer string, r *record) bool {
	// The number is at least the time in seconds, so that it grows even after a file was lost.
	r.State = max(r.State+2, int32(time.Now().Unix()&(math.MaxInt32>>1))) | 1
	ctx, cancel := context.WithTimeout(ctx, notifyMost)
	defer cancel()
	err := l.opt.Stable.Restarted(ctx, peer, r.Name, r.State)
	if err != nil {
		// The file stays that of the earlier boot: a later mount retries when no other has locks.
		l.log(fmt.Sprintf("server %s may keep locks from before this machine started again: %v", peer, err))
	}
	return err == nil
}

// errOthersHaveLocks is the reason for not notifying a server.
var errOthersHaveLocks = errors.New("other mounts have locks, which it would free too, if it is the same server by another address")

// lockServerRecord returns the server's file with a shared lock, and with this boot in it if
// possible. mayNotify permits notifying the server.
func (l *Locks) lockServerRecord(peer string, create, mayNotify bool) (*os.File, error) {
	o := l.opt.Stable
	path := filepath.Join(o.Dir, recordName+peer)
	for looks := 0; ; {
		file, err := lockRecord(path, create, unix.LOCK_EX)
		if err == nil {
			err = l.renew(file, peer, mayNotify)
			if err == nil {
				err = unix.Flock(int(file.Fd()), unix.LOCK_SH)
			}
			if err != nil {
				file.Close()
				return nil, err
			}
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		// Other mounts may have locks at the server.
		if file, err = lockRecord(path, create, unix.LOCK_SH); err == nil {
			// Those mounts may have failed to notify the server. A mount about to notify holds the
			// file exclusively.
			if r, err := readRecord(file); err != nil || r.Boot == o.Boot || looks == recordPolls {
				return file, nil
			}
			looks++
			file.Close()
		}
		if err := l.pause(l.ctx, pollMost/10); err != nil {
			return nil, err
		}
	}
}

// lockRecord opens and locks the file, unless a conflicting lock exists. It opens the file again if
// the last mount has removed it meanwhile.
func lockRecord(path string, create bool, how int) (*os.File, error) {
	flags := os.O_RDWR | unix.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
	}
	for {
		file, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB); err != nil {
			file.Close()
			return nil, err
		}
		mine, err := file.Stat()
		if there, err2 := os.Stat(path); err == nil && err2 == nil && os.SameFile(mine, there) {
			return file, nil
		}
		file.Close()
	}
}

// renew notifies the server if the exclusively held file is from an earlier boot, then writes this
// boot.
func (l *Locks) renew(file *os.File, peer string, mayNotify bool) error {
	r, err := readRecord(file)
	switch {
	case err != nil || r.Boot == l.opt.Stable.Boot:
		return err
	case r.Boot == "": // no locks yet
	case !mayNotify:
		l.log(fmt.Sprintf("server %s may keep locks from before this machine started again: %v", peer, errOthersHaveLocks))
		return nil
	case !l.notifyServer(l.ctx, peer, &r):
		return nil
	}
	r.Name, r.Boot, r.Nets = l.opt.Name, l.opt.Stable.Boot, []string{l.opt.Stable.Net}
	return writeRecord(file, &r)
}

// readRecord reads the file. An empty file is from a mount that ended early.
func readRecord(file *os.File) (r record, err error) {
	b, err := io.ReadAll(io.NewSectionReader(file, 0, maxRecord))
	if err != nil {
		return r, err
	}
	for line := range bytes.Lines(b) {
		var more record
		switch {
		case json.Unmarshal(line, &more) != nil: // a partial line: its mount had no lock yet
		case more.Boot != "":
			r = more
		case r.Boot != "":
			r.Nets = append(r.Nets, more.Nets...)
		}
	}
	return r, nil
}

// writeRecord replaces the file's content on stable storage. The mount holds the file exclusively,
// and no mount has locks at the server.
func writeRecord(file *os.File, r *record) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	return addToRecord(file, r)
}

// addToRecord adds a line on stable storage, and syncs the directory. Earlier content stays, even a
// partial line or zeros from a crash. So the added line begins and ends with a newline.
func addToRecord(file *os.File, r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if info.Size() > 0 {
		b = append([]byte("\n"), b...)
	}
	if _, err := file.WriteAt(b, info.Size()); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file.Name()))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// closeRecords removes the files of servers without other mounts, except files with possible locks
// or from an earlier boot. A server left by failover receives no UNLOCKs, so its file stays until
// the next boot's notice.
func (l *Locks) closeRecords(released bool) {
	for _, file := range l.records {
		defer file.Close()
		if !released || !l.isMonitored(strings.TrimPrefix(filepath.Base(file.Name()), recordName)) || unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			continue
		}
		if r, err := readRecord(file); err == nil && r.Boot == l.opt.Stable.Boot {
			_ = os.Remove(file.Name())
		}
	}
}
