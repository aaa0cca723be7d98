// The crash of this machine: servers keep its locks until they are told.
//
// Where the process of a mount is killed alone, the next mount knows its owners (journal.go). After a crash of the machine nobody does,
// and to write each of them to stable storage before its first lock would cost more than the lock. So there is one file for each
// server that this machine may have locks at, with the start of the machine in which it was made. A mount that finds one of an
// earlier start has the server free all that this machine had (SM_NOTIFY, as its status monitor does for the kernel's mounts), before
// any lock of this start is taken, which would be freed as well. So each mount with locks has the file locked, shared; who tells the server has
// it alone; and the last one removes it.

package nlm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A record is the content of the file.
type record struct {
	Name  string // of this machine, as the server knows it
	Boot  string // the start of the machine in which it may have taken locks
	State int32  // of the last SM_NOTIFY: odd, and larger each time
}

const (
	notifyMost  = 15 * time.Second // to tell the server
	recordLooks = 5                // at a file of an earlier start that others hold
)

// monitor has the server told of the next crash of the machine before there is a lock, and of the last one. With first the mount has none yet:
// it has only something to do where it finds a file. The error is that of ctx.
func (l *Locks) monitor(ctx context.Context, stop <-chan struct{}, first bool) error {
	if l.opt.Stable == nil || l.monitored.Load() {
		return nil
	}
	done := make(chan struct{})
	l.work.Go(func() {
		defer close(done)
		l.recording <- struct{}{}
		defer func() { <-l.recording }()
		l.openRecord(!first)
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

// openRecord has the mount hold the file; without create only one that is there.
func (l *Locks) openRecord(create bool) {
	if l.monitored.Load() {
		return
	}
	file, err := l.holdRecord(create)
	switch {
	case err == nil:
		l.record = file
	case !create && errors.Is(err, fs.ErrNotExist) || l.ctx.Err() != nil:
		return
	default: // which would come each time
		l.log(fmt.Sprintf("locks would outlive a crash of this machine: %v", err))
	}
	l.monitored.Store(true)
}

// holdRecord returns the file of the server, locked shared and with this start in it if that could be.
func (l *Locks) holdRecord(create bool) (*os.File, error) {
	o := l.opt.Stable
	path := filepath.Join(o.Dir, "server-"+o.Peer)
	for looks := 0; ; {
		file, err := lockRecord(path, create, unix.LOCK_EX)
		if err == nil {
			err = l.renew(file)
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
			// They may have been told that it cannot be told; who is about to tell it has the file alone.
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

// lockRecord opens the file with a lock, unless others have locks that forbid it. One that the last mount has removed meanwhile is none.
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

// renew has the server told where the file, which this mount has alone, is of an earlier start, and writes this one.
func (l *Locks) renew(file *os.File) error {
	r, err := readRecord(file)
	if err != nil || r.Boot == l.opt.Stable.Boot {
		return err
	}
	if r.Boot != "" {
		r.State = max(r.State+2, int32(time.Now().Unix()&(math.MaxInt32>>1))) | 1 // seconds, should the file have been lost
		ctx, cancel := context.WithTimeout(l.ctx, notifyMost)
		defer cancel()
		if err := l.opt.Stable.Restarted(ctx, r.Name, r.State); err != nil {
			// The file stays that of the earlier start: a mount that finds itself alone with it tries again.
			l.log(fmt.Sprintf("the server may keep locks from before this machine started again: %v", err))
			return nil
		}
	}
	r.Name, r.Boot = l.opt.Name, l.opt.Stable.Boot
	return writeRecord(file, &r)
}

// readRecord reads the file; an empty one is of a mount that did not come further.
func readRecord(file *os.File) (r record, err error) {
	b := make([]byte, 4<<10)
	n, err := file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return r, err
	}
	if json.Unmarshal(b[:n], &r) != nil {
		return record{}, nil // nothing was written, or a part: there was no lock yet
	}
	return r, nil
}

// writeRecord brings the file to stable storage, and its name.
func writeRecord(file *os.File, r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	if _, err := file.WriteAt(b, 0); err != nil {
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

// closeRecord removes the file after the last mount of the server, unless there are locks left or it is of an earlier start.
func (l *Locks) closeRecord(released bool) {
	if l.record == nil {
		return
	}
	defer l.record.Close()
	if !released || unix.Flock(int(l.record.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if r, err := readRecord(l.record); err == nil && r.Boot == l.opt.Stable.Boot {
		_ = os.Remove(l.record.Name())
	}
}
