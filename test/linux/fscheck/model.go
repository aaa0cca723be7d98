// Random operations against a model in memory.

package fscheck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Model runs n random operations on a directory and compares each outcome with a model's. The same
// seed gives the same operations. The error has the seed, the operation and the preceding
// operations.
func Model(e Env, seed uint64, n int) error {
	m := &model{e: e, rng: rand.New(rand.NewPCG(seed, 1)), names: map[string]*node{}}
	defer m.shutAll()
	for i := range n {
		if err := m.step(); err != nil {
			return fmt.Errorf("seed %d, operation %d: %w; before it:\n%s", seed, i, err, strings.Join(m.log, "\n"))
		}
	}
	for _, n := range m.names {
		if err := n.shut(); err != nil {
			return fmt.Errorf("seed %d, at the end: %w", seed, err)
		}
	}
	if err := e.Forget(); err != nil {
		return err
	}
	if err := m.compareAll(); err != nil {
		return fmt.Errorf("seed %d, at the end: %w", seed, err)
	}
	return nil
}

// node is a regular file, possibly with several names.
type node struct {
	data []byte
	// f is open if the last write has left the file open. The client may then still cache the
	// written data; closing sends the data.
	f *os.File
}

func (n *node) shut() error {
	if n == nil || n.f == nil {
		return nil
	}
	f := n.f
	n.f = nil
	return f.Close()
}

type model struct {
	e     Env
	rng   *rand.Rand
	names map[string]*node
	log   []string
}

const (
	someNames   = 40
	longestFile = 400_000
)

func (m *model) say(format string, args ...any) {
	if len(m.log) == 20 {
		m.log = m.log[1:]
	}
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *model) shutAll() {
	for _, n := range m.names {
		n.shut()
	}
}

// any returns a name. A file of this name exists or not.
func (m *model) any() string { return fmt.Sprintf("n%02d", m.rng.IntN(someNames)) }

// pick returns an existing name. It depends only on the seed, and not on map order.
func (m *model) pick() (string, *node) {
	all := make([]string, 0, len(m.names))
	for name := range m.names {
		all = append(all, name)
	}
	if len(all) == 0 {
		return "", nil
	}
	slices.Sort(all)
	name := all[m.rng.IntN(len(all))]
	return name, m.names[name]
}

func (m *model) step() error {
	switch k := m.rng.IntN(100); {
	case k < 12:
		return m.create()
	case k < 40:
		return m.write()
	case k < 66:
		return m.read()
	case k < 73:
		return m.truncate()
	case k < 80:
		return m.rename()
	case k < 86:
		return m.link()
	case k < 92:
		return m.unlink()
	case k < 97:
		return m.stat()
	case k < 99:
		return m.sync()
	}
	m.say("forget")
	return m.e.Forget()
}

func (m *model) create() error {
	name := m.any()
	m.say("create %s", name)
	f, err := os.OpenFile(m.e.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if m.names[name] != nil {
		return wants("create", err, os.ErrExist)
	}
	if err != nil {
		return err
	}
	m.names[name] = new(node)
	return f.Close()
}

func (m *model) write() error {
	name, n := m.pick()
	if n == nil {
		return nil
	}
	off, b := m.rng.IntN(len(n.data)+5000), data(m.length(), m.rng.Uint64())
	if off+len(b) > longestFile {
		off = 0
	}
	stay := m.rng.IntN(2) == 0
	m.say("write %s %d+%d, open after it: %v", name, off, len(b), stay)
	if n.f == nil {
		var err error
		if n.f, err = os.OpenFile(m.e.path(name), os.O_RDWR, 0); err != nil {
			return err
		}
	}
	if _, err := n.f.WriteAt(b, int64(off)); err != nil {
		return err
	}
	if !stay {
		if err := n.shut(); err != nil {
			return err
		}
	}
	if end := off + len(b); len(b) > 0 && end > len(n.data) {
		n.data = append(n.data, make([]byte, end-len(n.data))...)
	}
	if len(b) > 0 {
		copy(n.data[off:], b)
	}
	return nil
}

// length returns a random length, mostly below 6000 bytes.
func (m *model) length() int {
	if m.rng.IntN(4) == 0 {
		return m.rng.IntN(150_000)
	}
	return m.rng.IntN(6000)
}

func (m *model) read() error {
	name, n := m.pick()
	if n == nil {
		return nil
	}
	off, size := m.rng.IntN(len(n.data)+100), m.length()
	m.say("read %s %d+%d", name, off, size)
	f := n.f
	if f == nil {
		var err error
		if f, err = os.Open(m.e.path(name)); err != nil {
			return err
		}
		defer f.Close()
	}
	got := make([]byte, size)
	k, err := f.ReadAt(got, int64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	start := min(off, len(n.data))
	return same("read", got[:k], n.data[start:min(start+size, len(n.data))])
}

func (m *model) truncate() error {
	name, n := m.pick()
	if n == nil {
		return nil
	}
	size := m.rng.IntN(len(n.data)*2 + 100)
	size = min(size, longestFile)
	m.say("truncate %s %d", name, size)
	if err := os.Truncate(m.e.path(name), int64(size)); err != nil {
		return err
	}
	n.data = append(slices.Clone(n.data[:min(size, len(n.data))]), make([]byte, max(0, size-len(n.data)))...)
	return nil
}

// orphan closes a file that is about to lose a name. The client would rename an open file until the
// file is closed, which shows in the link count.
func (m *model) orphan(name string) error { return m.names[name].shut() }

func (m *model) rename() error {
	from, to := m.any(), m.any()
	m.say("rename %s %s", from, to)
	if err := m.orphan(to); err != nil {
		return err
	}
	err := os.Rename(m.e.path(from), m.e.path(to))
	n := m.names[from]
	if n == nil {
		return wants("rename", err, os.ErrNotExist)
	}
	if err != nil {
		return err
	}
	// If from and to are names of one file, both names stay (POSIX).
	if m.names[to] != n {
		delete(m.names, from)
		m.names[to] = n
	}
	return nil
}

func (m *model) link() error {
	from, to := m.any(), m.any()
	m.say("link %s %s", from, to)
	err := os.Link(m.e.path(from), m.e.path(to))
	switch {
	case m.names[from] == nil:
		return wants("link", err, os.ErrNotExist)
	case m.names[to] != nil:
		return wants("link", err, os.ErrExist)
	}
	m.names[to] = m.names[from]
	return err
}

func (m *model) unlink() error {
	name := m.any()
	m.say("unlink %s", name)
	if err := m.orphan(name); err != nil {
		return err
	}
	err := syscall.Unlink(m.e.path(name))
	if m.names[name] == nil {
		return wants("unlink", err, os.ErrNotExist)
	}
	delete(m.names, name)
	return err
}

func (m *model) stat() error {
	name := m.any()
	m.say("stat %s", name)
	var st syscall.Stat_t
	err := syscall.Lstat(m.e.path(name), &st)
	n := m.names[name]
	if n == nil {
		return wants("stat", err, os.ErrNotExist)
	}
	links := 0
	for _, other := range m.names {
		if other == n {
			links++
		}
	}
	if err == nil && (st.Size != int64(len(n.data)) || int(st.Nlink) != links) {
		return fmt.Errorf("%s: size %d and %d links, want %d and %d", name, st.Size, st.Nlink, len(n.data), links)
	}
	return err
}

func (m *model) sync() error {
	name, n := m.pick()
	if n == nil {
		return nil
	}
	m.say("sync %s", name)
	if n.f != nil {
		return n.f.Sync()
	}
	f, err := os.OpenFile(m.e.path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (m *model) compareAll() error {
	list, err := os.ReadDir(m.e.Dir)
	if err != nil {
		return err
	}
	if len(list) != len(m.names) {
		return fmt.Errorf("%d names, want %d", len(list), len(m.names))
	}
	for name, n := range m.names {
		got, err := os.ReadFile(m.e.path(name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, n.data) {
			return same(name, got, n.data)
		}
	}
	return nil
}
