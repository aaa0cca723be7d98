// A Table against a model: random schedules of changes, restarts and torn logs.

package pathtree

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A model maps each object's path to the object's number, and each identity ever given to the
// number of its object.
type model struct {
	t     *testing.T
	rnd   *rand.Rand
	dir   string // the state directory; "": none
	table *Table

	objects map[string]int
	next    int
	given   map[ID]int
}

func newModel(t *testing.T, seed int64, dir string) *model {
	m := &model{t: t, rnd: rand.New(rand.NewSource(seed)), dir: dir, objects: map[string]int{"": 0}, next: 1, given: map[ID]int{}}
	m.reopen()
	return m
}

func (m *model) reopen() {
	m.t.Helper()
	if m.table != nil {
		if err := m.table.Close(); err != nil {
			m.t.Fatalf("Close: %v", err)
		}
	}
	var err error
	if m.table, err = New(Options{Dir: m.dir}); err != nil {
		m.t.Fatalf("New: %v", err)
	}
}

// some returns a random path in the model.
func (m *model) some() string {
	list := slices.Sorted(maps.Keys(m.objects))
	return list[m.rnd.Intn(len(list))]
}

func (m *model) join(dir string) (p, name string) {
	name = fmt.Sprint("n", m.rnd.Intn(4))
	return strings.TrimPrefix(path.Join(dir, name), "/"), name
}

// id finds the object at a path from the root, with one LOOKUP for each component.
func (m *model) id(p string) ID {
	m.t.Helper()
	id := m.table.Root()
	for _, name := range strings.Split(p, "/") {
		if name == "" {
			continue
		}
		var err error
		if id, err = m.table.Find(id, name); err != nil {
			m.t.Fatalf("Find %q: %v", p, err)
		}
	}
	if have, known := m.given[id]; known && have != m.objects[p] {
		m.t.Fatalf("the identity of object %d was given to object %d, %q", have, m.objects[p], p)
	}
	m.given[id] = m.objects[p]
	return id
}

func below(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }

func (m *model) drop(top string) {
	for p := range m.objects {
		if below(p, top) {
			delete(m.objects, p)
		}
	}
}

// step makes one random change, in the model and in the table.
func (m *model) step() {
	m.t.Helper()
	dir := m.some()
	p, name := m.join(dir)
	_, exists := m.objects[p]
	switch m.rnd.Intn(7) {
	case 0: // a client looks up an object
		m.id(dir)
	case 1: // a client makes an object
		if !exists {
			m.objects[p] = m.next
			m.next++
			id, err := m.table.Add(m.id(dir), name)
			if err != nil {
				m.t.Fatalf("Add: %v", err)
			}
			m.given[id] = m.objects[p]
		}
	case 2: // another program makes an object
		if !exists {
			m.objects[p] = m.next
			m.next++
		}
	case 3, 4:
		m.rename(dir, p, name)
	case 5: // a client removes an object that was looked up
		if exists {
			m.table.Drop(m.id(p))
			m.drop(p)
		}
	case 6: // another program removes objects, and a listing shows the removals
		if exists {
			m.id(p)
			m.drop(p)
		}
		m.table.Prune(m.id(dir), func(name string) bool {
			_, ok := m.objects[strings.TrimPrefix(path.Join(dir, name), "/")]
			return ok
		})
	}
}

// rename moves the object at p, whose name in dir is name, to a random place.
func (m *model) rename(dir, p, name string) {
	m.t.Helper()
	to := m.some()
	q, toName := m.join(to)
	if _, exists := m.objects[p]; !exists || below(to, p) || below(p, q) {
		return
	}
	if err := m.table.Move(m.id(dir), name, m.id(to), toName); err != nil {
		m.t.Fatalf("Move %q to %q: %v", p, q, err)
	}
	moved := map[string]int{}
	for o, n := range m.objects {
		if below(o, p) {
			moved[q+strings.TrimPrefix(o, p)] = n
		}
	}
	m.drop(p)
	m.drop(q)
	maps.Copy(m.objects, moved)
}

// check compares each identity ever given with the model.
func (m *model) check() {
	m.t.Helper()
	at := map[int]string{}
	for p, n := range m.objects {
		at[n] = p
	}
	for id, n := range m.given {
		want, there := at[n]
		got, err := m.table.Path(id)
		if there && (err != nil || got != want) {
			m.t.Fatalf("object %d: got path %q, %v; want %q", n, got, err, want)
		}
		if !there && err == nil {
			m.t.Fatalf("object %d is gone, but its identity leads to %q", n, got)
		}
	}
}

func TestIdentitiesFollowObjects(t *testing.T) {
	for seed := range int64(30) {
		m := newModel(t, seed, "")
		for range 300 {
			m.step()
			m.check()
		}
	}
}

func TestIdentitiesSurviveRestarts(t *testing.T) {
	for seed := range int64(12) {
		m := newModel(t, seed, t.TempDir())
		for i := range 300 {
			m.step()
			if i%20 == 0 {
				m.reopen()
			}
			m.check()
		}
		if err := m.table.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestLogIsRewritten: a log does not grow with the number of changes.
func TestLogIsRewritten(t *testing.T) {
	dir := t.TempDir()
	table, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * slack {
		if _, err := table.Add(table.Root(), fmt.Sprint(i%3)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64(2*slack) * 64; info.Size() > limit {
		t.Errorf("a log of three objects has %d bytes, want at most %d", info.Size(), limit)
	}
	if err := table.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestTornLog: each prefix of a log is a log, and its identities are right.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	m := newModel(t, 1, dir)
	for range 100 {
		m.step()
	}
	if err := m.table.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	for n := len(magic) + secretSize; n <= len(log); n++ {
		table := &Table{max: 1 << 20, nodes: map[ID]*node{}}
		if err := table.load(log[:n]); err != nil {
			t.Fatalf("%d bytes of %d: %v", n, len(log), err)
		}
		sound(t, table)
	}
}

// sound checks that a table is a single tree.
func sound(t *testing.T, table *Table) {
	t.Helper()
	seen := 0
	var walk func(n *node)
	walk = func(n *node) {
		seen++
		if table.nodes[n.id] != n {
			t.Fatalf("%q is not found by its identity", n.path())
		}
		for name, m := range n.names {
			if m.parent != n || m.name != name {
				t.Fatalf("%q in %q has another place", name, n.path())
			}
			walk(m)
		}
	}
	walk(table.root)
	if seen != len(table.nodes) {
		t.Fatalf("%d objects in the tree, want %d", seen, len(table.nodes))
	}
}

func FuzzLog(f *testing.F) {
	table, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	d, err := table.Find(table.Root(), "d")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := table.Find(d, "x"); err != nil {
		f.Fatal(err)
	}
	n := table.nodes[d]
	f.Add(appendNode(appendEra(appendKept(appendDrop(appendNode(nil, n), n), n), n), n))
	f.Fuzz(func(t *testing.T, b []byte) {
		table := &Table{max: 1 << 20, nodes: map[ID]*node{}}
		if err := table.load(append(append(append([]byte{}, magic...), make([]byte, secretSize)...), b...)); err != nil {
			t.Fatalf("load: %v", err)
		}
		for len(b) > 0 { // applies each payload again, without its checksum
			size := min(len(b), 1+idSize+int(b[0]))
			if size > idSize {
				table.apply(b[:size])
			}
			b = b[size:]
		}
		sound(t, table)
	})
}

func TestStateDirectoryErrors(t *testing.T) {
	dir := t.TempDir()
	table, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: dir}); err == nil {
		t.Error("two tables have one state directory, want an error")
	}
	if err := table.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, logName), []byte("another program's file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: dir}); err == nil {
		t.Error("another program's file was taken as a log, want an error")
	}
}
