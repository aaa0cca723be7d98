// Files kept open between calls, by identity.

package tree

import (
	"container/list"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/pathtree"
)

// An openFile is a file in use, or one kept for later.
type openFile struct {
	File
	id    pathtree.ID
	write bool       // opened for writing too
	io    sync.Mutex // held during calls if the file is Alone

	// files.mu guards these.
	users int
	gone  bool // closed when the last user releases it
	place *list.Element
}

// files keeps a bounded number of open files, besides those in use.
type files struct {
	limit int // set once

	mu    sync.Mutex // guards the rest
	open  map[pathtree.ID]*openFile
	order *list.List // of *openFile, the last used first
	lost  error      // from an unattended Close, until the next Sync
}

func (s *files) init(limit int) {
	s.limit, s.open, s.order = limit, make(map[pathtree.ID]*openFile), list.New()
}

// use returns an open file, which the caller releases. FS.names is held, so that no file is
// opened by a path that leads to another.
func (s *files) use(id pathtree.ID, write bool, open func() (File, error)) (*openFile, error) {
	if x := s.have(id, write); x != nil {
		return x, nil
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	x := &openFile{File: f, id: id, write: write, users: 1}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.open[id]; old != nil && old.write && !write {
		old.users++ // meanwhile another call has opened it for writing, too
		s.lose(f.Close())
		return old, nil
	} else if old != nil {
		s.retire(old)
	}
	s.open[id] = x
	x.place = s.order.PushFront(x)
	s.shrink(s.limit)
	return x, nil
}

// have returns a file that is open already, or nil.
func (s *files) have(id pathtree.ID, write bool) *openFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.open[id]
	if x == nil || write && !x.write {
		return nil
	}
	x.users++
	s.order.MoveToFront(x.place)
	return x
}

// shrink retires unused files until at most n stay open; s.mu is held.
func (s *files) shrink(n int) {
	for e := s.order.Back(); e != nil && len(s.open) > n; {
		x := e.Value.(*openFile)
		e = e.Prev()
		if x.users == 0 {
			s.retire(x)
		}
	}
}

// retire removes a file from the table, and closes it after its last use; s.mu is held.
func (s *files) retire(x *openFile) {
	delete(s.open, x.id)
	s.order.Remove(x.place)
	x.gone = true
	if x.users == 0 {
		s.lose(x.Close())
	}
}

// lose notes a Close error; s.mu is held.
func (s *files) lose(err error) {
	if err != nil && s.lost == nil {
		s.lost = err
	}
}

func (s *files) release(x *openFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.users--
	if x.gone && x.users == 0 {
		s.lose(x.Close())
	}
}

// drop retires a file whose path changes.
func (s *files) drop(id pathtree.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.open[id]; x != nil {
		s.retire(x)
	}
}

// dropAll retires all files, because many paths change.
func (s *files) dropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.open {
		s.retire(x)
	}
}

// takeLost returns the error from an earlier Close, once.
func (s *files) takeLost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.lost
	s.lost = nil
	return err
}

func (s *files) close() error {
	s.dropAll()
	return s.takeLost()
}

// alone runs f, and keeps other calls away where the file needs that.
func (x *openFile) alone(f func() error) error {
	if x.Alone() {
		x.io.Lock()
		defer x.io.Unlock()
	}
	return f()
}

// sync brings the content to stable storage. Where only Close does that, the file is retired.
func (s *files) sync(id pathtree.ID) error {
	x := s.have(id, true)
	if x == nil {
		return s.takeLost()
	}
	err := x.alone(x.Sync)
	if errors.Is(err, errors.ErrUnsupported) {
		s.drop(id)
		err = nil
	}
	s.release(x)
	return errors.Join(err, s.takeLost())
}
