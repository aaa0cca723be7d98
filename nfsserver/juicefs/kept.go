// Locks of the process before, which are held until its clients have had the time to reclaim them.

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

// keepPause is how long after the metadata service was not there it is tried again to release what is kept.
const keepPause = time.Second

// A span is bytes of a file, both ends included.
type span struct{ start, end uint64 }

// without returns what of all is not within s.
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

// A keptFile is the locks of one file that the process before had. To the volume they are ours, as are those that are taken since.
type keptFile struct {
	locks *fileLocks // without this

	mu        sync.Mutex // guards all below; the volume is called under it
	over      bool       // nothing is kept any more
	exclusive []span     // of one client each: who locks any of it has reclaimed that
	shared    []span     // of several, perhaps: others may be about to reclaim theirs
	held      []span     // taken since
}

// set is fileLocks.Set while locks are kept.
func (k *keptFile) set(s span, kind uint32) error {
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

// release releases bytes but those of some others. mu is held.
func (k *keptFile) release(all []span, but ...[]span) error {
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

// end releases what has not been reclaimed.
func (k *keptFile) end() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.release(slices.Concat(k.exclusive, k.shared), k.held)
	if errors.Is(err, syscall.ENOENT) { // SQL: the file has been removed, and nobody else can lock it
		err = nil
	}
	k.over = err == nil
	return err
}

// A keeper is the locks of the process before.
type keeper struct {
	files map[meta.Ino]*keptFile // set once
	end   sync.Once              // closes grace
	grace chan struct{}          // closed when clients reclaim no more; nil: nothing is kept
	stop  chan struct{}          // closed by close
	ended chan struct{}          // closed when nothing runs any more
}

// hold holds the locks of a session that m goes on with until endGrace. All are the server's: it has one owner (lockOwner), and key-value
// stores are listed by JuiceFS with the session's number for it.
func (k *keeper) hold(m meta.Meta, s *meta.Session) {
	k.files = map[meta.Ino]*keptFile{}
	for _, p := range s.Plocks {
		file := &keptFile{locks: &fileLocks{m: m, ino: p.Inode}}
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

// endGrace has what is kept released. It does not wait for that.
func (k *keeper) endGrace() {
	if k.grace != nil {
		k.end.Do(func() { close(k.grace) })
	}
}

// endLoop ends what is kept. A file that cannot be ended now keeps no other waiting.
func (k *keeper) endLoop() {
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

// close is for the end of the server, which ends the session.
func (k *keeper) close() {
	if k.grace != nil {
		close(k.stop)
		<-k.ended
	}
}
