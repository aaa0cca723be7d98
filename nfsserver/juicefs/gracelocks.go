// Locks of the previous process, held until its clients have had the time to reclaim them.

package juicefs

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// keepPause is the pause before another attempt to release locks while the metadata service is
// unreachable.
const keepPause = time.Second

// A span is a range of bytes, both ends included.
type span struct{ start, end uint64 }

// without returns the parts of all outside s.
func without(all []span, s span) (rest []span) {
	for _, a := range all {
		if a.end < s.start || a.start > s.end {
			rest = append(rest, a)
			continue
		}
		if a.start < s.start {
			rest = append(rest, span{a.start, s.start - 1})
		}
		if a.end > s.end {
			rest = append(rest, span{s.end + 1, a.end})
		}
	}
	return rest
}

// A graceFile is the previous process's locks on one file. The volume sees them as ours, like the
// locks taken since.
type graceFile struct {
	locks *fileLocks // plain locks, without this

	mu        sync.Mutex // guards all below; held during calls to the volume
	over      bool       // nothing is kept any more
	exclusive []span     // held by one client each: a client that locks any part has reclaimed it
	shared    []span     // may be held by several clients: others may be about to reclaim theirs
	held      []span     // taken since
}

// set is fileLocks.Set while locks are kept.
func (k *graceFile) set(s span, kind uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return k.locks.lock(s, kind)
	}
	if kind != syscall.F_UNLCK {
		err := k.locks.lock(s, kind)
		if err == nil {
			k.exclusive = without(k.exclusive, s)
			k.held = append(without(k.held, s), s)
		}
		return err
	}
	err := k.release([]span{s}, k.exclusive, k.shared)
	if err == nil {
		k.held = without(k.held, s)
	}
	return err
}

// release releases all except the spans in but. mu is held.
func (k *graceFile) release(all []span, but ...[]span) error {
	for _, list := range but {
		for _, b := range list {
			all = without(all, b)
		}
	}
	for _, s := range all {
		if err := k.locks.lock(s, syscall.F_UNLCK); err != nil {
			return err
		}
	}
	return nil
}

// end releases the locks that were not reclaimed.
func (k *graceFile) end() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.release(slices.Concat(k.exclusive, k.shared), k.held)
	if errors.Is(err, syscall.ENOENT) { // SQL: the file was removed, so no other client can lock it
		err = nil
	}
	k.over = err == nil
	return err
}

// graceLocks holds the previous process's locks.
type graceLocks struct {
	files map[meta.Ino]*graceFile // set once
	end   sync.Once               // closes grace
	grace chan struct{}           // closed at the end of the grace period; nil: no locks are kept
	stop  chan struct{}           // closed by close
	ended chan struct{}           // closed when endLoop returns
}

// hold holds the locks of a session that m continues, until endGrace. All belong to the server,
// which has one owner (lockOwner). For key-value stores JuiceFS lists them with the session's
// number as the owner.
func (k *graceLocks) hold(m meta.Meta, s *meta.Session) {
	k.files = map[meta.Ino]*graceFile{}
	for _, p := range s.Plocks {
		file := &graceFile{locks: &fileLocks{m: m, ino: p.Inode}}
		for _, r := range p.Records {
			switch s := (span{r.Start, r.End}); r.Type {
			case syscall.F_WRLCK:
				file.exclusive = append(file.exclusive, s)
			case syscall.F_RDLCK:
				file.shared = append(file.shared, s)
			}
		}
		k.files[p.Inode] = file
	}
	k.grace, k.stop, k.ended = make(chan struct{}), make(chan struct{}), make(chan struct{})
	go k.endLoop()
}

// endGrace starts releasing the kept locks, and does not wait for it.
func (k *graceLocks) endGrace() {
	if k.grace != nil {
		k.end.Do(func() { close(k.grace) })
	}
}

// endLoop releases the kept locks. A file that fails does not delay the others.
func (k *graceLocks) endLoop() {
	defer close(k.ended)
	select {
	case <-k.grace:
	case <-k.stop:
		return
	}
	for left := maps.Clone(k.files); ; {
		for ino, file := range left {
			select {
			case <-k.stop:
				return
			default:
			}
			if file.end() == nil {
				delete(left, ino)
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-time.After(keepPause):
		case <-k.stop:
			return
		}
	}
}

// close stops at the end of the server, before the session ends.
func (k *graceLocks) close() {
	if k.grace != nil {
		close(k.stop)
		<-k.ended
	}
}
