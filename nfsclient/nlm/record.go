// The crash of this machine: servers keep its locks until they are told.
//
// Where the process of a mount is killed alone, the next mount knows its owners (journal.go). After
// a crash of the machine nobody does, and to write each of them to stable storage before its first
// lock would cost more than the lock. So there is one file for each server that this machine may
// have locks at, with the start of the machine in which it was made. A mount that finds one of an
// earlier start has the server free all that this machine had (SM_NOTIFY, as its status monitor
// does for the kernel's mounts), before any lock of this start is taken, which would be freed as
// well. So each mount with locks has the file locked, shared; who tells the server has it alone;
// and the last one removes it.
//
// The files go by addresses, of which a server may have several: what is told to one of them frees
// what was locked by another. So the first mount after a crash tells all servers of earlier starts,
// before it takes a lock; and where a mount has locks nobody is told any more. One file of the
// directory, the gate, is held by who looks after the others.

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

// A record is the content of the file: JSON, a line when the mount that made it begins it, and a
// line with the network for each that came to it. Lines are only added while there may be locks, so
// that no crash loses those before.
type record struct {
	Name  string `json:",omitempty"` // of this machine, as the server knows it
	Boot  string `json:",omitempty"` // the start of the machine in which it may have taken locks
	State int32  `json:",omitempty"` // of the last SM_NOTIFY: odd, and larger each time
	// The networks of this machine that its mounts are in: servers know the machine by other
	// addresses in each.
	Nets []string
}

const (
	notifyMost   = 15 * time.Second // to tell the server
	notifyOthers = 10 * time.Second // to tell all others, which the first lock waits for before that
	notifyAtOnce = 64               // of them
	recordLooks  = 5                // at a file of an earlier start that others hold
	maxRecord    = 1 << 20          // bytes of a file: some 30 for each network
)

// monitor has the server told of the next crash of the machine before there is a lock, and of the
// last one. With first the mount has none yet: it has only something to do where it finds a file.
// The error is that of ctx.
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

// isMonitored reports whether a server is the one that all has been done for.
func (l *Locks) isMonitored(peer string) bool {
	last := l.monitored.Load()
	return last != nil && *last == peer
}

// openRecord has the mount hold the file of a server; without create only one that is there. Those
// of servers before stay: they may have locks.
func (l *Locks) openRecord(peer string, create bool) {
	name := filepath.Join(l.opt.Stable.Dir, recordName+peer)
	if l.isMonitored(peer) || slices.ContainsFunc(l.records, func(f *os.File) bool { return f.Name() == name }) {
		l.monitored.Store(&peer)
		return
	}
	gate, err := l.holdGate(create)
	if err == nil && gate == nil {
		return
	}
	var file *os.File
	if err == nil {
		defer gate.Close()
		if file, err = l.holdRecord(peer, create, l.tellEarlier(peer)); err == nil {
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
	default: // which would come each time
		l.log(fmt.Sprintf("locks would outlive a crash of this machine: %v", err))
	}
	l.monitored.Store(&peer)
}

// recordName is what the files begin with, and gateName the file that is held by who looks after
// them.
const (
	recordName = "server-"
	gateName   = "gate"
)

// records are the files of all servers.
func (o *Stable) records() (paths []string) {
	list, _ := os.ReadDir(o.Dir) // what cannot be read has none
	for _, e := range list {
		if strings.HasPrefix(e.Name(), recordName) {
			paths = append(paths, filepath.Join(o.Dir, e.Name()))
		}
	}
	return paths
}

// holdGate returns the gate, which the mount then holds. nil: it need not, as there are no files,
// and without create there is to be none.
func (l *Locks) holdGate(create bool) (*os.File, error) {
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

// tellEarlier has the servers told, at once, that this machine may have locks at from before it
// started, but for the mount's own, of which the file is the mount's to renew. It reports whether
// that one can be told: no mount has a lock, by whichever address. What is told needs no file any
// more. The gate is held.
func (l *Locks) tellEarlier(peer string) bool {
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
		// In another network an address is another server's, and this machine another client's.
		if err == nil && r.Boot != o.Boot && filepath.Base(path) != recordName+peer && slices.Contains(r.Nets, o.Net) {
			earlier = append(earlier, file)
		}
	}
	if !alone || l.told {
		return alone
	}
	l.told = true // each once by one mount: who does not answer keeps its locks waiting
	l.tellAll(earlier)
	return true
}

// tellAll tells the servers of files that the mount has alone, many at once, for no longer than
// notifyOthers in all. It does so in no order: those that never answer, which there may be as many
// of as are told at once, would be the first each time.
func (l *Locks) tellAll(files []*os.File) {
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
			if err == nil && (r.Boot == "" || l.tell(ctx, strings.TrimPrefix(filepath.Base(file.Name()), recordName), &r)) {
				_ = os.Remove(file.Name()) // else it is told once more, when nobody has locks
			}
		})
	}
	all.Wait()
}

// sharesNet reports whether the mounts that hold a file are in the network of this one, as far as
// is known.
func (l *Locks) sharesNet(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	r, err := readRecord(file)
	return err != nil || len(r.Nets) == 0 || slices.Contains(r.Nets, l.opt.Stable.Net)
}

// enterNet has a file that the mount holds say in which network it is. The gate is held.
func (l *Locks) enterNet(file *os.File) error {
	r, err := readRecord(file)
	if err != nil || r.Boot == "" || slices.Contains(r.Nets, l.opt.Stable.Net) {
		return err
	}
	return addToRecord(file, &record{Nets: []string{l.opt.Stable.Net}})
}

// tell tells a server, and reports whether it has been.
func (l *Locks) tell(ctx context.Context, peer string, r *record) bool {
	r.State = max(r.State+2, int32(time.Now().Unix()&(math.MaxInt32>>1))) | 1 // seconds, should the file have been lost
	ctx, cancel := context.WithTimeout(ctx, notifyMost)
	defer cancel()
	err := l.opt.Stable.Restarted(ctx, peer, r.Name, r.State)
	if err != nil {
		// The file stays that of the earlier start: a mount that finds no others tries again.
		l.log(fmt.Sprintf("server %s may keep locks from before this machine started again: %v", peer, err))
	}
	return err == nil
}

// errOthersHaveLocks is why a server is not told.
var errOthersHaveLocks = errors.New("other mounts have locks, which it would free too, if it is the same server by another address")

// holdRecord returns the file of the server, locked shared and with this start in it if that could
// be. tell: the server can be told.
func (l *Locks) holdRecord(peer string, create, tell bool) (*os.File, error) {
	o := l.opt.Stable
	path := filepath.Join(o.Dir, recordName+peer)
	for looks := 0; ; {
		file, err := lockRecord(path, create, unix.LOCK_EX)
		if err == nil {
			err = l.renew(file, peer, tell)
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
		if file, err = lockRecord(path, create, unix.LOCK_SH); err == nil { // others have locks there
			// They may have been told that it cannot be told; who is about to tell it has the file
			// alone.
			if r, err := readRecord(file); err != nil || r.Boot == o.Boot || looks == recordLooks {
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

// lockRecord opens the file with a lock, unless others have locks that forbid it. One that the last
// mount has removed meanwhile is none.
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

// renew has the server told where the file, which this mount has alone, is of an earlier start, and
// writes this one.
func (l *Locks) renew(file *os.File, peer string, tell bool) error {
	r, err := readRecord(file)
	switch {
	case err != nil || r.Boot == l.opt.Stable.Boot:
		return err
	case r.Boot == "": // there was no lock yet
	case !tell:
		l.log(fmt.Sprintf("server %s may keep locks from before this machine started again: %v", peer, errOthersHaveLocks))
		return nil
	case !l.tell(l.ctx, peer, &r):
		return nil
	}
	r.Name, r.Boot, r.Nets = l.opt.Name, l.opt.Stable.Boot, []string{l.opt.Stable.Net}
	return writeRecord(file, &r)
}

// readRecord reads the file; an empty one is of a mount that did not come further.
func readRecord(file *os.File) (r record, err error) {
	b, err := io.ReadAll(io.NewSectionReader(file, 0, maxRecord))
	if err != nil {
		return r, err
	}
	for line := range bytes.Lines(b) {
		var more record
		switch {
		case json.Unmarshal(line, &more) != nil: // a part: there was no lock yet of who has written it
		case more.Boot != "":
			r = more
		case r.Boot != "":
			r.Nets = append(r.Nets, more.Nets...)
		}
	}
	return r, nil
}

// writeRecord begins the file anew, and brings it to stable storage. The mount has it alone, and
// nobody has locks there.
func writeRecord(file *os.File, r *record) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	return addToRecord(file, r)
}

// addToRecord brings one more line to stable storage, and the file's name. What is there stays,
// also where a crash has left a part of a line, or zeros in its place: so a line has an end of its
// own, and begins after the end of what was before.
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

// closeRecords removes the files after the last mount of their servers, but for those that may have
// locks left, and those of an earlier start. A server that the mount has left is not told what has
// been released since: its file stays until it is told of the next start.
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
