// A Table's log in its state directory. It is read at the start and written again, shorter,
// when most records have no effect any more.

package pathtree

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	logName, lockName = "handles", "lock"
	secretSize        = 32
	// slack is how many records a log may have beyond twice the needed ones.
	slack = 4096
)

// magic begins a log; its last byte is the version. The secret follows.
var magic = []byte("pathtre\x01")

// A journal is an open log. Table.mu guards it.
type journal struct {
	dir     string
	lock    *os.File // locked, so that one process has the directory
	file    *os.File
	records int
	// broken: the last write failed, so the file may lack records. The next one writes all again.
	broken bool
	err    error // from the last write
}

// open reads the log in a state directory, or makes it, and then keeps it up to date.
func (t *Table) open(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return fmt.Errorf("state directory %s is used by another file tree: %w", dir, err)
	}
	j := &journal{dir: dir, lock: lock}
	b, err := os.ReadFile(filepath.Join(dir, logName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.secret = make([]byte, secretSize)
		rand.Read(t.secret)
		t.begin()
	case err == nil:
		err = t.load(b)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = t.rewrite(j)
	}
	if err != nil {
		lock.Close()
		return err
	}
	t.log = j
	return nil
}

// load reads a log. It ends at the first record that is not whole, which a power failure leaves.
func (t *Table) load(b []byte) error {
	if len(b) < len(magic)+secretSize || !bytes.Equal(b[:len(magic)], magic) {
		return fmt.Errorf("%s in the state directory is no list of handles of this version", logName)
	}
	t.secret = bytes.Clone(b[len(magic) : len(magic)+secretSize])
	t.begin()
	b = b[len(magic)+secretSize:]
	for {
		payload, rest, ok := cutRecord(b)
		if !ok {
			return nil
		}
		t.apply(payload)
		b = rest
	}
}

// record appends one record to the log; t.mu is held. A failure stays until Sync.
func (t *Table) record(b []byte) {
	j := t.log
	if j == nil {
		return
	}
	if j.broken || j.records > 2*t.needed()+slack {
		j.err = t.rewrite(j)
		j.broken = j.err != nil
		return // the new log has the change already
	}
	if _, err := j.file.Write(b); err != nil {
		j.err, j.broken = err, true
		return
	}
	j.records++
}

// needed estimates how many records a new log would have, without eras and kept attributes.
func (t *Table) needed() int { return len(t.nodes) }

// rewrite replaces the log by one with only the present state; t.mu is held or t is new.
func (t *Table) rewrite(j *journal) error {
	name := filepath.Join(j.dir, logName)
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	records, err := t.dump(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err == nil {
		err = syncDir(j.dir)
	}
	if err != nil {
		f.Close()
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.records = f, records
	return nil
}

// dump writes the present state as a log, each directory before the objects in it.
func (t *Table) dump(f *os.File) (records int, err error) {
	b := append(bytes.Clone(magic), t.secret...)
	todo := []*node{t.root}
	for len(todo) > 0 && err == nil {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n.parent != nil {
			b = appendNode(b, n)
			records++
		}
		if n.era != 0 {
			b = appendEra(b, n)
			records++
		}
		if n.kept.durable() != (Kept{}) {
			b = appendKept(b, n)
			records++
		}
		for _, m := range n.names {
			todo = append(todo, m)
		}
		if len(b) >= 64<<10 {
			_, err = f.Write(b)
			b = b[:0]
		}
	}
	if err == nil {
		_, err = f.Write(b)
	}
	return records, err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Sync brings all identities to stable storage. Without a state directory it does nothing.
func (t *Table) Sync() error {
	t.mu.Lock()
	j := t.log
	if j == nil {
		t.mu.Unlock()
		return nil
	}
	if j.broken {
		j.err = t.rewrite(j)
		j.broken = j.err != nil
	}
	f, err := j.file, j.err
	t.mu.Unlock()
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, fs.ErrClosed) {
		return nil // replaced meanwhile by a log that is stable
	}
	return err
}

// Close frees the state directory. No call may follow.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.log
	if j == nil {
		return nil
	}
	t.log = nil
	return errors.Join(j.err, j.file.Close(), j.lock.Close())
}
